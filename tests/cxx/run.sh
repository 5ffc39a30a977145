#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The header in C11 to C++20 by gcc and clang without a warning; exceptions through sampled code; functions of the host
# that throw. Half a minute.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
out=$BUILD/cxx
log=$out/log
rm -rf "$out"
mkdir -p "$out"
: >"$log"
warnings="-Wall -Wextra -Werror -pedantic -Wshadow -Wundef"

say() { echo "$*" | tee -a "$log"; }

compile_header() { # compiler, standards...
  local compiler=$1 standard good=()
  shift
  for standard; do
    # shellcheck disable=SC2086
    if "$compiler" "-std=$standard" $warnings -fsyntax-only -I core/include "$source"; then good+=("$standard"); else
      say "not ok header: $compiler -std=$standard"
    fi
  done
  [ ${#good[@]} -eq 0 ] || say "ok header: $compiler in ${good[*]}"
}

run() { # compiler, program, flags...
  local compiler=$1 program=$2 binary=$out/$2-$1
  shift 2
  # shellcheck disable=SC2086
  if "$compiler" -std=c++11 -O2 -g $warnings "$@" -I core/include "tests/cxx/$program.cpp" -o "$binary" \
    "$BUILD/lib/libonstack.a" -lpthread -ldl; then
    timeout -k 5 120 "$binary" | sed "s/$/ ($compiler)/" | tee -a "$log"
    local status=${PIPESTATUS[0]}
    [ "$status" -le 1 ] || say "not ok $program: exit status $status ($compiler)"
  else
    say "not ok $program: does not build ($compiler)"
  fi
}

ONSTACK_DEPS=install ci/deps.sh || say "skip what deps.sh names: it is not installed"
make --no-print-directory -s -f core/Makefile lib || exit 1
cp tests/cxx/header.cpp "$out/header.c"
clang=$(command -v clang || command -v clang-14)
for compiler in gcc ${clang:+"$(basename "$clang")"}; do
  source=$out/header.c compile_header "$compiler" c11 c17 gnu11
  cxx=${compiler/gcc/g++}
  cxx=${cxx/clang/clang++}
  source=tests/cxx/header.cpp compile_header "$cxx" c++11 c++14 c++17 c++20
  run "$cxx" exceptions
  run "$cxx" throwing
done
[ -n "$clang" ] || say "skip clang: it is not installed (apt-get install clang-14)"

passed=$(grep -c '^ok ' "$log")
failed=$(grep -c '^not ok ' "$log")
echo "cxx: $passed passed, $failed failed, $(grep -c '^skip ' "$log") skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
