#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The core by every compiler and for every system that it promises (docs/PORTABILITY.md): compiled without a warning,
# linked as shared and static library, and run where this machine can run it. Prints one line a check; minutes.
# Debian's packages bring gcc, clang, musl and the aarch64 cross compiler; macOS, FreeBSD and an old glibc come by zig,
# a Python package of some 80 MB that goes to build/portability/zig. What cannot be had is skipped, and said.
# Usage: ci/check-portability.sh [compilers] [musl] [aarch64] [glibc] [others]   (default: all)
set -uo pipefail
cd "$(dirname "$0")/.."
out=${BUILD:-build}/portability
log=$out/log
parts=${*:-compilers musl aarch64 glibc others}
mkdir -p "$out"
: >"$log"
oldest_glibc=2.17
newest_glibc=2.41
zig_version=0.15.2

say() { echo "$*" | tee -a "$log"; }

build() { # name, variables for make...
  local name=$1
  shift
  # zig's cache would keep an object whose headers are not the ones of now; the rest is quick.
  rm -rf "${out:?}/$name"
  # shellcheck disable=SC2086
  if make --no-print-directory -s -j2 -f core/Makefile ${target:-lib} BUILD="$out/$name" "$@" >"$out/$name.log" 2>&1; then
    return 0
  fi
  grep -E 'warning|error|Error' "$out/$name.log" | head -20
  say "not ok $name: does not build ($out/$name.log)"
  return 1
}

# Links a program to a library that was just built; the program tells by itself whether sessions work there.
link() { # name, kind (static, shared, heap: libonstack-heap.a over the shared one, or rooted: stacks are), compiler with flags...
  local name=$1 kind=$2 library source=start
  shift 2
  library=$out/$name/lib/libonstack.a
  [ "$kind" = static ] || [ "$kind" = rooted ] || library="-L$out/$name/lib -lonstack"
  [ "$kind" != rooted ] || source=rooted
  [ "$kind" != heap ] || source=heap library="$out/$name/lib/libonstack-heap.a $library -ldl"
  # shellcheck disable=SC2086
  "$@" -g -O1 -Wall -Wextra -Werror -I core/include tests/portability/$source.c $library -lpthread \
    -o "$out/$name/start-$kind" >"$out/$name.log" 2>&1 && return
  head -20 "$out/$name.log"
  say "not ok $name: a program does not link ($kind)"
  return 1
}

run() { # name, kind, command before the program...
  local name=$1 kind=$2 said
  shift 2
  if said=$(LD_LIBRARY_PATH=$out/$name/lib timeout -k 5 60 "$@" "$out/$name/start-$kind" 2>&1); then
    say "ok $name, $kind: ${said//$'\n'/; }"
  else
    say "not ok $name, $kind: ${said//$'\n'/; }"
  fi
}

pedantic="-O2 -g -pedantic -Wundef -Wshadow -Wstrict-prototypes -Wmissing-prototypes" # as in ci/check-platforms.sh

check_compilers() {
  local compiler
  for compiler in gcc clang-14; do
    command -v "$compiler" >/dev/null || { say "skip $compiler: it is not installed"; continue; }
    build "$compiler" CC="$compiler" CFLAGS="$pedantic" && link "$compiler" static "$compiler" && run "$compiler" static &&
      link "$compiler" shared "$compiler" && run "$compiler" shared && link "$compiler" heap "$compiler" && run "$compiler" heap
    link "$compiler" rooted "$compiler" -static -fomit-frame-pointer && run "$compiler" rooted
  done
  # What other systems get, on this one, because it can be run here.
  build unsupported SYSTEM=freebsd CFLAGS="$pedantic" && link unsupported static cc -DEXPECT_UNSUPPORTED && run unsupported static
}

check_musl() {
  command -v musl-gcc >/dev/null || { say "skip musl: musl-gcc is not installed (apt-get install musl-tools)"; return; }
  build musl CC=musl-gcc CFLAGS="$pedantic" || return
  link musl static musl-gcc -static && run musl static
  link musl rooted musl-gcc -static -fomit-frame-pointer && run musl rooted
  link musl shared musl-gcc && run musl shared
  link musl heap musl-gcc && run musl heap
}

check_aarch64() {
  local cross=aarch64-linux-gnu-gcc
  command -v $cross >/dev/null || { say "skip aarch64: $cross is not installed"; return; }
  build aarch64 CC=$cross AR=aarch64-linux-gnu-ar CFLAGS="$pedantic" && link aarch64 static $cross && link aarch64 shared $cross &&
    say "ok aarch64: builds and links; make test-aarch64 runs it"
}

# zig brings the headers and libraries of other systems; 0.15 has both FreeBSD and a glibc as old as 2.17.
find_zig() {
  export PYTHONPATH=$PWD/$out/zig
  [ "$(python3 -m ziglang version 2>/dev/null)" = $zig_version ] && return
  local command="python3 -m pip install --quiet --target $out/zig ziglang==$zig_version"
  [ "${ONSTACK_NO_INSTALL:-}" = 1 ] && { say "skip zig: it is not installed; type: $command"; return 1; }
  echo "+ $command"
  rm -rf "$out/zig" # pip leaves another version as it is
  $command >"$out/pip.log" 2>&1 && return
  say "skip zig: it cannot be had ($out/pip.log says why)"
  return 1
}

# Without the preload: zig's linker has no --wrap.
with_zig() { # name, target
  target="libraries ${3-}" build "$1" CC="python3 -m ziglang cc -target $2" AR="python3 -m ziglang ar" CFLAGS="-O2 -g -pedantic"
}

check_glibc() {
  find_zig || return
  local machine name newest
  for machine in x86_64 aarch64; do
    name=glibc-$machine
    with_zig "$name" "$machine-linux-gnu.$oldest_glibc" "$out/$name/lib/libonstack-heap.a" || continue
    link "$name" shared python3 -m ziglang cc -target "$machine-linux-gnu.$oldest_glibc" || continue
    link "$name" heap python3 -m ziglang cc -target "$machine-linux-gnu.$oldest_glibc" || continue
    newest=$(objdump -T "$out/$name/lib/libonstack.so" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
    if [ "$(printf '%s\n' "GLIBC_$oldest_glibc" "$newest" | sort -V | tail -1)" = "GLIBC_$oldest_glibc" ]; then
      say "ok $name: needs nothing newer than $newest"
    else
      say "not ok $name: needs $newest, more than GLIBC_$oldest_glibc has"
    fi
    [ "$machine" = "$(uname -m)" ] && run "$name" shared && run "$name" heap
  done
  check_newest_headers
}

# The preload by the newest headers: names that musl lacks keep its programs from starting (core/preload/next.c).
# __dso_handle is of the compiler's own objects.
check_newest_headers() {
  local name=glibc-newest musl missing
  musl=/lib/ld-musl-$(uname -m).so.1
  find_zig || return
  [ -e "$musl" ] || { say "skip $name: musl is not installed"; return; }
  with_zig $name "$(uname -m)-linux-gnu.$newest_glibc" preload-objects || return
  missing=$(find "$out/$name/obj" -name '*.o' -exec nm {} + | awk 'NF == 3 { has[$3] } $1 == "U" { uses[$2] }
    END { if (!("dlsym" in uses)) print "nothing-was-found"; for (name in uses) if (!(name in has) && name != "__dso_handle") print name }' | LC_ALL=C sort |
    LC_ALL=C comm -23 - <(nm -D --defined-only "$musl" | awk '{ print $3 }' | LC_ALL=C sort -u))
  if [ -z "$missing" ]; then
    say "ok $name: by glibc $newest_glibc's headers the preload needs no name that musl lacks"
  else
    say "not ok $name: by glibc $newest_glibc's headers the preload needs names that musl lacks:" $missing
  fi
}

check_others() {
  find_zig || return
  local system
  for system in aarch64-macos x86_64-macos x86_64-freebsd; do
    with_zig "$system" "$system" && link "$system" static python3 -m ziglang cc -target "$system" -DEXPECT_UNSUPPORTED &&
      link "$system" shared python3 -m ziglang cc -target "$system" -DEXPECT_UNSUPPORTED && say "ok $system: builds and links"
  done
  # The same sources for musl as another linker and another compiler see them.
  with_zig musl-aarch64 aarch64-linux-musl && link musl-aarch64 static python3 -m ziglang cc -target aarch64-linux-musl &&
    say "ok musl-aarch64: builds and links"
}

ONSTACK_DEPS=portability ci/deps.sh || say "skip what deps.sh names: it is not installed"
for part in $parts; do
  case $part in
  compilers | musl | aarch64 | glibc | others) "check_$part" ;;
  *) say "not ok $part: no such part; there are compilers, musl, aarch64, glibc and others" ;;
  esac
done
passed=$(grep -c '^ok ' "$log")
failed=$(grep -c '^not ok ' "$log")
echo "portability: $passed passed, $failed failed, $(grep -c '^skip ' "$log") skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
