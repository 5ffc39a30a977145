#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The C part of the README in a bare Debian 12 root with nothing but the packages that it names: what a newcomer's
# container has. Root and debootstrap are needed; the root stays in build/bare-root for the next time.
# ONSTACK_DEBIAN_MIRROR: another mirror than debootstrap takes by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=gcc,libc6-dev,make,pkg-config
root=$PWD/${BUILD:-build}/bare-root

if [ "$(id -u)" != 0 ]; then
  echo "skip bare-root: it needs root (chroot)"
  exit 77
fi
ONSTACK_DEPS=debian ci/deps.sh || { echo "skip bare-root: apt-get install debootstrap"; exit 77; }
for name in ${packages//,/ }; do
  grep -qF "\`$name\`" README.md || { echo "not ok bare-root: the README does not name the package $name"; exit 1; }
done
if [ ! -e "$root/complete" ]; then
  rm -rf "$root"
  echo "+ debootstrap --variant=minbase --include=$packages bookworm"
  if ! debootstrap --variant=minbase --include="$packages" bookworm "$root" ${ONSTACK_DEBIAN_MIRROR:+"$ONSTACK_DEBIAN_MIRROR"} >"$root.log" 2>&1; then
    echo "skip bare-root: there is no root to be had ($root.log says why)"
    exit 77
  fi
  touch "$root/complete"
fi

rm -rf "$root/home/newcomer"
mkdir -p "$root/home/newcomer/onstack"
tar c --exclude=./build --exclude=target --exclude=./.git . | tar x -C "$root/home/newcomer/onstack"
ci/check-readme.py --shell "Use it from C" >"$root/home/newcomer/readme.sh"
# Namespaces of its own, so that its /proc goes when it ends.
timeout -k 5 500 unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" /bin/bash -euc \
  'cd /home/newcomer && exec bash -eu readme.sh'
echo "ok bare-root: the README's C part with $packages"
