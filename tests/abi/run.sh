#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# A program of every older header, of today's and of a later one, with today's library; the older ones and today's with a
# later library, whose sized structures are longer; today's and the later one with older libraries, built from the
# repository's history; and whether ci/abi.py finds what breaks a program. About 20 s.
# tests/abi/headers holds headers as they were at a release (or, before the first, at a milestone), with the commit.
set -uo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
headers=core/include/onstack
out=$BUILD/abi
log=$out/log
rm -rf "$out"
mkdir -p "$out/later/onstack" "$out/broken/onstack"
: >"$log"
make --no-print-directory -s -f core/Makefile lib || exit 1

build_program() { # name, directory with the header
  ${CC:-cc} -std=c11 -O1 -g -Wall -Wextra -Werror -DHEADER_NAME="\"$1\"" -I "$2" tests/abi/program.c \
    -o "$out/$1" -L "$BUILD/lib" -lonstack && return
  echo "not ok $1: does not build" | tee -a "$log"
}

run_program() { # name, library, directory of the library
  [ -x "$out/$1" ] || return
  LD_LIBRARY_PATH=$3 timeout -k 5 60 "$out/$1" >"$out/said"
  local status=$?
  cat "$out/said" >>"$log"
  grep -v '^ok ' "$out/said"
  [ "$status" -le 1 ] || echo "not ok $1, $2: exit status $status" | tee -a "$log"
  echo "$1 with $2: $(grep -c '^ok ' "$out/said") ok"
}

# An older library, for the programs of today and of a later day.
run_old_library() { # name, commit
  local tree=$out/tree-$1
  if ! git cat-file -e "$2^{commit}" 2>/dev/null; then
    echo "skip library-$1: commit $2 is not in this checkout's history (a shallow clone?)" | tee -a "$log"
    return
  fi
  mkdir -p "$tree"
  if git archive "$2" core plugins | tar x -C "$tree" &&
    make --no-print-directory -s -j2 -C "$tree" -f core/Makefile lib >"$out/make.log" 2>&1; then
    run_program header-of-today "library-$1" "$tree/build/lib"
    run_program header-of-later "library-$1" "$tree/build/lib"
  else
    cat "$out/make.log"
    echo "not ok library-$1: does not build" | tee -a "$log"
  fi
}

# Today's, as it is once its sized structures have grown.
build_later_library() {
  make --no-print-directory -s -j2 -f core/Makefile BUILD="$out/later" CFLAGS="-O0 -I $out/later" \
    "$out/later/lib/libonstack.so" >"$out/make.log" 2>&1 && return
  cat "$out/make.log"
  echo "not ok library-of-later: does not build" | tee -a "$log"
}

build_program header-of-today core/include
python3 tests/abi/grow.py "$headers" "$out/later/onstack" && build_program header-of-later "$out/later"
build_later_library
for directory in tests/abi/headers/*/; do
  [ -e "$directory/commit" ] || continue
  directory=${directory%/}
  name=$(basename "$directory")
  build_program "header-$name" "$directory"
  run_program "header-$name" today "$BUILD/lib"
  run_program "header-$name" library-of-later "$out/later/lib"
  run_old_library "$name" "$(cat "$directory/commit")"
done
run_program header-of-today today "$BUILD/lib"
run_program header-of-later today "$BUILD/lib"
run_program header-of-today library-of-later "$out/later/lib"

# ---- what ci/abi.py must find, and what it must let pass ----

rule_finds() { # what, 0 or 1, sed expression
  cp "$headers"/*.h "$out/broken/onstack/" && sed -E -i "$3" "$out/broken/onstack"/*.h
  if diff -q "$headers" "$out/broken/onstack" >/dev/null; then
    echo "not ok rules: '$3' changes nothing in the headers" | tee -a "$log"
    return
  fi
  ci/abi.py compatible "$headers" "$out/broken/onstack" >"$out/rules.txt" 2>&1
  if [ $? = "$2" ]; then echo "ok rules: $1" | tee -a "$log"; else
    echo "not ok rules: $1" | tee -a "$log"
    cat "$out/rules.txt"
  fi
}

rule_finds "a member that moves is found" 1 's/^  uint32_t frequency;/  uint32_t before;\n  uint32_t frequency;/'
rule_finds "a member of another type is found" 1 's/^  int32_t signal;/  uint32_t signal;/'
rule_finds "a member that is gone is found" 1 '/^  void \*sink_data;/d'
rule_finds "a structure without a size that grows is found" 1 's/^(  uint64_t lr;.*)/\1\n  uint64_t more;/'
rule_finds "an error code of another number is found" 1 's/(define ONSTACK_E_STOPPED) \(-4101\)/\1 (-4100)/'
rule_finds "a parameter more is found" 1 's/(onstack_session_stop\(onstack_session \*session)/\1, int how/'
rule_finds "a function that is gone is found" 1 's/^ONSTACK_API (int onstack_session_free)/\1/'
rule_finds "a callback of another type is found" 1 's/^typedef int (\(\*onstack_writer)/typedef long \1/'
rule_finds "an option at the end passes" 0 's/^(\} onstack_options;)/  uint32_t more;\n  uint32_t reserved9;\n\1/'
rule_finds "an option in a reserved place passes" 0 's/^  uint8_t reserved0\[2\]; /  uint8_t more;\n  uint8_t reserved0; /'
rule_finds "a new constant passes" 0 's/^(#define ONSTACK_E_CONTEXT .*)/\1\n#define ONSTACK_E_MORE (-5000)/'
rule_finds "another name of a parameter passes" 0 's/(onstack_session_stop\(onstack_session \*)session/\1it/'
rule_finds "an experimental function may change" 0 's/(onstack_traceback_prepare\()void/\1int how/'

passed=$(grep -c '^ok ' "$log")
failed=$(grep -c '^not ok ' "$log")
echo "abi: $passed passed, $failed failed, $(grep -c '^skip ' "$log") skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
