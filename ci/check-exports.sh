#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The shared library exports exactly what ci/onstack.exports lists, the public header declares exactly that, and each has a man page.
# `--write` replaces the list; look at the difference before it is committed: a name that is gone breaks programs.
set -euo pipefail
cd "$(dirname "$0")/.."
library=${BUILD:-build}/lib/libonstack.so
header=core/include/onstack/onstack.h
list=ci/onstack.exports

if [ ! -e "$library" ]; then
  echo "check-exports: $library is missing; run 'make -f core/Makefile lib' first" >&2
  exit 1
fi
exports=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | LC_ALL=C sort)
if [ "${1-}" = --write ]; then
  printf '%s\n' "$exports" >"$list"
  echo "check-exports: wrote $list"
  exit 0
fi
status=0
if ! diff -u "$list" <(printf '%s\n' "$exports") >&2; then
  echo "check-exports: $library does not export what $list says. A new name: 'ci/check-exports.sh --write'. A name that" \
    "is gone: put it back, or raise the library's version" >&2
  status=1
fi
# The preprocessor drops comments; the marker is what ONSTACK_API becomes.
declared=$(${CC:-cc} -E -P -DONSTACK_API=exported_here "$header" | tr '\n' ' ' | grep -oE 'exported_here [^;]*;' |
  sed -E 's/\(.*//; s/.*[ *]//' | LC_ALL=C sort)
if ! diff -u <(printf '%s\n' "$declared") <(sed 's/@.*//' "$list") >&2; then
  echo "check-exports: $header and $list differ: every function there carries ONSTACK_API, and nothing else is exported" >&2
  status=1
fi
unpaged=$(sed 's/@.*//' "$list" | LC_ALL=C comm -23 - <(sed -nE 's/^\.Nm ([a-z_]+).*/\1/p' docs/man/*.3 | LC_ALL=C sort -u))
if [ -n "$unpaged" ]; then
  echo "check-exports: no man page has a line .Nm for:" $unpaged >&2
  status=1
fi
# What musl's loader does not find keeps its programs from starting (core/preload/other_libc.c).
musl=/lib/ld-musl-$(uname -m).so.1
preload=${library%/*}/libonstack-preload.so
if ! [ -e "$musl" ] || ! [ -e "$preload" ]; then
  echo "check-exports: skip: $musl or $preload is missing: the preload's names are not compared with musl's"
else
  missing=$(nm -D --undefined-only "$preload" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | LC_ALL=C sort -u |
    LC_ALL=C comm -23 - <(nm -D --defined-only "$musl" | awk '{ print $3 }' | LC_ALL=C sort -u))
  if [ -n "$missing" ]; then
    echo "check-exports: the preload uses names that musl lacks: put them into core/preload/other_libc.c:" $missing >&2
    status=1
  fi
fi
[ "$status" -eq 0 ] && echo "check-exports: $(grep -c . "$list") names, as listed and declared"
exit "$status"
