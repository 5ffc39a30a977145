#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# apt-get or apt-cache for Debian's packages of arm64, with package lists below DIRECTORY: this machine's own stay as they
# are, and nobody needs to be root. For packages that are unpacked somewhere and never installed.
# Usage: ci/arm64-apt.sh DIRECTORY download package... (to the current directory), or any other command of apt-get
#        ci/arm64-apt.sh DIRECTORY unpack package...   (download, below DIRECTORY/root; what is there stays)
#        ci/arm64-apt.sh DIRECTORY depends package     (apt-cache's)
set -euo pipefail
mkdir -p "$1/lists/partial" "$1/archives/partial" "$1/root"
directory=$(cd "$1" && pwd)
verb=$2
shift 2

options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::Lists=$directory/lists"
  -o "Dir::Cache=$directory" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)

update() {
  [ -z "$(find "$directory/updated" -mmin -1440 2>/dev/null)" ] || return 0
  apt-get "${options[@]}" update >"$directory/log" 2>&1 || { cat "$directory/log" >&2; return 1; }
  touch "$directory/updated"
}

unpack() {
  local package
  for package; do
    [ ! -e "$directory/archives/$package.unpacked" ] || continue
    update
    (cd "$directory/archives" && rm -f "$package"_*.deb && apt-get "${options[@]}" download "$package" >>"$directory/log" 2>&1 &&
      dpkg-deb -x "$package"_*.deb "$directory/root" && rm -f "$package"_*.deb && touch "$package.unpacked")
  done
}

command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || { echo "arm64-apt: needs Debian's apt-get" >&2; exit 1; }
case $verb in
unpack) unpack "$@" ;;
depends) update && apt-cache "${options[@]}" depends "$@" ;;
*) update && apt-get "${options[@]}" "$verb" "$@" ;;
esac
