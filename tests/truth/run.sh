#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Single-steps programs and compares onstack's walk at every instruction with the callers that really called.
# Usage: tests/truth/run.sh [subject...]   (x86_64 Linux; about a minute)
#
# What is asked for: no invented frame, no early root, and at least this much exact (measured figures less a little).
# What is not exact says so by its truncation, and nobody could do better from memory and .eh_frame alone:
#   clone3        libc leaves the instructions around the system call without CFI
#   addmul        libc's __mpn_addmul_1 pushes without saying so
#   longjmp       its CFI is in registers that a walker has for the leaf only
#   exceptions    libgcc writes the catching frame's registers over those saved in its own frames
#   crypto        OpenSSL's RSA code keeps its CFA in RAX or RSI
#   startup       _init, _fini and the compiler's start files have no CFI; frame pointers can skip a caller there
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD

if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "skip truth: for x86_64 Linux only"
  exit 77
fi

#        subject       exact  skipped  steps
figures="plain         99.90  0        100000
         plain-small   99.90  0        100000
         plain-marked  99.90  0        100000
         plain-clumsy  99.90  0        100000
         startup       99.93  24       100000
         signals       99.70  0        10000
         exceptions    99.70  0        80000
         rust          99.80  0        100000
         crypto        95.50  0        100000"
passed=0 failed=0 skipped=0

make --no-print-directory -f core/Makefile lib && make --no-print-directory -f tests/truth/Makefile subjects || exit 1

while read -r subject exact most steps; do
  if [ $# -gt 0 ] && [[ " $* " != *" $subject "* ]]; then continue; fi
  program=$BUILD/tests/truth/$subject
  if [ ! -x "$program" ]; then
    echo "skip $subject: it is not built here"
    skipped=$((skipped + 1))
    continue
  fi
  timeout -k 5 120 "$program" --places "${PLACES:-0}" --least-exact "$exact" --most-skipped "$most" --least-steps "$steps"
  case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); echo "skip $subject: this system does not let it (above)" ;;
    *) failed=$((failed + 1)); echo "FAILED: $subject (PLACES=20 $0 $subject shows where)" ;;
  esac
done <<<"$figures"

echo "truth: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
