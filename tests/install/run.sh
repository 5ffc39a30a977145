#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# `make install` and what other people do with it: the examples are built against an installed tree by gcc and clang,
# by pkg-config and CMake, shared and static, run, and their profiles checked; then it is removed again. About a minute.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
root=$PWD
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
prefix=$place/prefix
log=$place/log
: >"$log"
unset DESTDIR PREFIX LIBDIR INCLUDEDIR MANDIR DOCDIR LD_LIBRARY_PATH PKG_CONFIG_PATH MAKEFLAGS

ok() { echo "ok $*" | tee -a "$log"; }
not_ok() { echo "not ok $*" | tee -a "$log"; }
skip() { echo "skip $*" | tee -a "$log"; }

check() { # name, command...: passes if the command does; its output is shown only if it fails
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then ok "$name"; else
    not_ok "$name"
    printf '%s\n' "$output" | tail -20
  fi
}

refuses() { # text, command...: the command fails and says the text
  local text=$1 output
  shift
  output=$("$@" 2>&1) && { echo "did not fail: $*"; return 1; }
  grep -qF -- "$text" <<<"${output//$'\n'/ }" || { echo "no word of '$text' in: $output"; return 1; }
}

# Whatever flags the user gives: --static brings all that is needed.
static_rooted() {
  local flags
  flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs --static onstack) || return 1
  # shellcheck disable=SC2086
  gcc -O2 -fomit-frame-pointer -static tests/portability/rooted.c $flags -o "$place/rooted" && timeout -k 5 60 "$place/rooted"
}

listing() { (cd "$1" && find . ! -type d -printf '%P %m %l\n' | LC_ALL=C sort); }

# ---- the tree ----

same_staged() {
  make -s install PREFIX="$prefix" DESTDIR="$place/stage" && diff -r "$prefix" "$place/stage$prefix" &&
    diff <(listing "$prefix") <(listing "$place/stage$prefix")
}

# No file says where it was built or staged, but for debug information.
no_places() {
  ! grep -rIlF -e "$root" -e "$place/stage" "$prefix"
}

library_marks() {
  local library=$prefix/lib/libonstack.so dynamic
  dynamic=$(readelf -dW "$library")
  grep -q 'SONAME.*\[libonstack\.so\.0\]' <<<"$dynamic" && grep -q 'Flags:.*NODELETE' <<<"$dynamic" &&
    [ "$(readlink "$library")" = libonstack.so.0 ] && [ -f "$(readlink -f "$library")" ] &&
    diff ci/onstack.exports <(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | LC_ALL=C sort)
}

# Each public function has its page, or a page that leads to one, and no page is about something that is not there.
man_pages() {
  local name missing=() page
  for name in $(sed 's/@.*//' ci/onstack.exports); do
    [ -s "$prefix/share/man/man3/$name.3" ] || missing+=("$name")
  done
  for page in "$prefix"/share/man/man3/onstack_*_*.3; do
    name=$(basename "$page" .3)
    grep -q "^$name@" ci/onstack.exports || missing+=("$name is no function, or")
  done
  [ ${#missing[@]} -eq 0 ] || { echo "no page for: ${missing[*]}"; return 1; }
  # shellcheck disable=SC2012
  [ "$(MANPATH=$prefix/share/man man -w 3 onstack_session_stop 2>/dev/null)" != "" ] || ! command -v man >/dev/null
}

man_lint() { mandoc -Tlint -W warning docs/man/*.[1-8]; }

uninstall() {
  touch "$prefix/lib/of-somebody-else"
  make -s uninstall PREFIX="$prefix" && diff <(echo lib/of-somebody-else) <(cd "$prefix" && find . ! -type d -printf '%P\n') &&
    [ ! -e "$prefix/include/onstack" ] && [ ! -e "$prefix/lib/cmake/onstack" ]
}

# ---- the examples ----

# Of the samples in one function and what it calls, in per cent of all.
share() { # program, profile, function
  go tool pprof -top -cum -nodefraction=0 "$1" "$2" 2>/dev/null | awk -v name="$3" '
    $6 ~ "^" name { sub("%", "", $5); print int($5); found = 1; exit } END { if (!found) print 0 }'
}

between() { [ "$2" -ge "$1" ] && [ "$2" -le "$3" ] || { echo "$4: $2 %, not $1 .. $3 %"; return 1; }; }

# Sorting takes a quarter of the time; of some hundred samples the share is right to within 15 points.
try_c() { # program
  timeout -k 5 60 "$1" "$place/c.pb" 1 && between 60 "$(share "$1" "$place/c.pb" hash_numbers)" 90 hash_numbers &&
    between 10 "$(share "$1" "$place/c.pb" sort_numbers)" 40 sort_numbers &&
    between 98 "$(share "$1" "$place/c.pb" main)" 100 main
}

# Two threads busy for the same time on two processors or more; on a loaded machine they share unevenly.
try_cxx() { # program
  timeout -k 5 60 "$1" "$place/cxx.pb" && between 20 "$(share "$1" "$place/cxx.pb" throw_and_catch)" 80 throw_and_catch &&
    between 20 "$(share "$1" "$place/cxx.pb" count_words)" 80 count_words &&
    between 3 "$(share "$1" "$place/cxx.pb" __cxa_throw)" 80 __cxa_throw
}

by_pkg_config() { # example, compiler variable and value, further variables...
  local example=$1 out
  shift
  out=$place/$example-make
  rm -rf "$out" && cp -r "examples/$example" "$out" &&
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig make -s -C "$out" LDFLAGS="-Wl,-rpath,$prefix/lib" "$@" &&
    "try_$example" "$out/profile"
}

# The installed tree under another name: nothing of the package may hang on where it was installed.
by_cmake() { # example, tree, further definitions...
  local example=$1 tree=$2
  shift 2
  rm -rf "$place/$example-cmake"
  cmake -S "examples/$example" -B "$place/$example-cmake" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_BUILD_TYPE=RelWithDebInfo "$@" &&
    cmake --build "$place/$example-cmake" && "try_$example" "$place/$example-cmake/profile"
}

cmake_finds() { # line of CMake after project()
  mkdir -p "$place/find"
  printf 'cmake_minimum_required(VERSION 3.10)\nproject(find C)\n%s\n' "$1" >"$place/find/CMakeLists.txt"
  rm -rf "$place/find/build"
  cmake -S "$place/find" -B "$place/find/build" -DCMAKE_PREFIX_PATH="$prefix"
}

static_alone() { ! ldd "$1" | grep libonstack; }

ONSTACK_DEPS=install ci/deps.sh || skip "what deps.sh names: it is not installed"
make --no-print-directory -s lib || exit 1
check "make install" make -s install PREFIX="$prefix"
check "DESTDIR: the same files, and none that names it" same_staged
check "no file names where it was built" no_places
check "SONAME, nodelete, links, symbol versions" library_marks
check "a relative PREFIX is refused" refuses "must be absolute" make -s install PREFIX=somewhere
check "a page for each function" man_pages
if command -v mandoc >/dev/null; then check "man pages: mandoc -Tlint" man_lint; else skip "mandoc -Tlint: mandoc is not installed"; fi

clang=$(command -v clang || command -v clang-14)
if command -v pkg-config >/dev/null; then
  check "onstack.pc" env PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --validate onstack
  check "C: gcc, pkg-config" by_pkg_config c CC=gcc
  check "C: gcc, pkg-config, static" by_pkg_config c CC=gcc STATIC=1
  check "C: the static one needs no libonstack.so" static_alone "$place/c-make/profile"
  check "C: a static program's stacks reach their root" static_rooted
  check "C++: g++, pkg-config" by_pkg_config cxx CXX=g++
  if [ -n "$clang" ]; then
    check "C: clang, pkg-config" by_pkg_config c CC="$clang"
    check "C++: clang++, pkg-config, static" by_pkg_config cxx CXX="${clang/clang/clang++}" STATIC=1
  else
    skip "clang: it is not installed (apt-get install clang-14)"
  fi
else
  skip "pkg-config: it is not installed (apt-get install pkg-config)"
fi

if command -v cmake >/dev/null; then
  check "C: CMake" by_cmake c "$prefix"
  check "C: CMake, static target" try_c "$place/c-cmake/profile-static"
  check "CMake: the static target needs no libonstack.so" static_alone "$place/c-cmake/profile-static"
  cp -a "$prefix" "$place/moved"
  check "C++: CMake, from a moved tree" by_cmake cxx "$place/moved"
  make -s install PREFIX="$place/multiarch" LIBDIR="$place/multiarch/lib/x86_64-linux-gnu"
  check "C++: CMake, LIBDIR=.../lib/x86_64-linux-gnu" by_cmake cxx "$place/multiarch" \
    -Donstack_DIR="$place/multiarch/lib/x86_64-linux-gnu/cmake/onstack"
  check "CMake: 0.1 is found, and its static component" cmake_finds 'find_package(onstack 0.1 REQUIRED COMPONENTS static)'
  check "CMake: a later version is refused" refuses "0.1.0" cmake_finds 'find_package(onstack 0.99 REQUIRED)'
  check "CMake: another major version is refused" refuses "0.1.0" cmake_finds 'find_package(onstack 1.0 REQUIRED)'
  check "CMake: an unknown component is refused" refuses "no component 'python'" \
    cmake_finds 'find_package(onstack REQUIRED COMPONENTS python)'
else
  skip "CMake: it is not installed (apt-get install cmake)"
fi
check "make uninstall leaves what it did not bring" uninstall

passed=$(grep -c '^ok ' "$log")
failed=$(grep -c '^not ok ' "$log")
echo "install: $passed passed, $failed failed, $(grep -c '^skip ' "$log") skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
