#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The shared library exports exactly what ci/onstack.exports lists, the public headers declare exactly that, and each has a man page.
# No exported function of the libraries calls another one by its name.
# `--write` replaces the list; look at the difference before it is committed: a name that is gone breaks programs.
set -euo pipefail
cd "$(dirname "$0")/.."
library=${BUILD:-build}/lib/libonstack.so
headers=core/include/onstack
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
declared=$(${CC:-cc} -E -P -DONSTACK_API=exported_here -I core/include "$headers"/*.h | tr '\n' ' ' | grep -oE 'exported_here [^;]*;' |
  sed -E 's/\(.*//; s/.*[ *]//' | LC_ALL=C sort -u)
if ! diff -u <(printf '%s\n' "$declared") <(sed 's/@.*//' "$list") >&2; then
  echo "check-exports: $headers and $list differ: every function there carries ONSTACK_API, and nothing else is exported" >&2
  status=1
fi
unpaged=$(sed 's/@.*//' "$list" | LC_ALL=C comm -23 - <(sed -nE 's/^\.Nm ([a-z_]+).*/\1/p' docs/man/*.3 | LC_ALL=C sort -u))
if [ -n "$unpaged" ]; then
  echo "check-exports: no man page has a line .Nm for:" $unpaged >&2
  status=1
fi
# A host's function of the same name comes first, and may call ours (core/preload/next.h). Only memory has to come from the
# host's malloc, because libc gives some to us and takes some from us; in the object that exports malloc that is no reason.
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u; }
bound() { readelf -rW "$1" | awk '$3 ~ /^R_/ { sub(/@.*/, "", $5); print $5 }' | LC_ALL=C sort -u; }
preload=${library%/*}/libonstack-preload.so
malloc=${library%/lib/*}/obj/heap/malloc.o
for pair in "$library:$library" "$preload:$preload" "$preload:$malloc"; do
  exporter=${pair%:*} binder=${pair#*:}
  if ! [ -e "$exporter" ] || ! [ -e "$binder" ]; then
    echo "check-exports: skip: $binder is missing: what it binds is not compared with what it exports"
    continue
  fi
  own=$(LC_ALL=C comm -12 <(exported "$exporter") <(bound "$binder"))
  [ "$binder" = "$preload" ] && own=$(grep -vxE 'malloc|calloc|realloc|free' <<<"$own" || true)
  if [ -n "$own" ]; then
    echo "check-exports: $binder calls names that it exports; let the functions share a static one:" $own >&2
    status=1
  fi
done
# What musl's loader does not find keeps its programs from starting (core/preload/next.c).
musl=/lib/ld-musl-$(uname -m).so.1
if ! [ -e "$musl" ] || ! [ -e "$preload" ]; then
  echo "check-exports: skip: $musl or $preload is missing: the preload's names are not compared with musl's"
else
  missing=$(nm -D --undefined-only "$preload" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | LC_ALL=C sort -u |
    LC_ALL=C comm -23 - <(nm -D --defined-only "$musl" | awk '{ print $3 }' | LC_ALL=C sort -u))
  if [ -n "$missing" ]; then
    echo "check-exports: the preload uses names that musl lacks: put them into core/preload/next.c:" $missing >&2
    status=1
  fi
fi
[ "$status" -eq 0 ] && echo "check-exports: $(grep -c . "$list") names, as listed and declared"
exit "$status"
