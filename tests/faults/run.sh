#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Failures on purpose: the n-th of each system call and allocation of the library and of the preloaded one, calls that a filter refuses, limits, missing files.
# Usage: tests/faults/run.sh [all | few]   all: every n, and the other clocks too (minutes); few: one call of each kind (seconds)
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD
status=0
boring=' works: | start returns | up to | not refused: | not made to fail: '
if [ "${1-}" = all ]; then boring='^$'; fi

run() {
  local result
  timeout -k 5 "${LIMIT:-700}" "$@" | grep -Ev "$boring"
  result=${PIPESTATUS[0]}
  case $result in 0 | 77) return ;; esac # 77: it has said what it skips
  echo "tests/faults: $* failed ($result)"
  status=1
}

make --no-print-directory -s -f core/Makefile BUILD="$BUILD" lib || exit 1
if [[ $(ldd --version 2>&1) != *GLIBC* && $(ldd --version 2>&1) != *"GNU libc"* ]]; then
  echo "skip nth, deny, steady and preloaded: they replace glibc's malloc"
else
  make --no-print-directory -s -f tests/faults/Makefile BUILD="$BUILD" || exit 1
  if [ "${1-}" = few ]; then
    run "$BUILD/tests/faults/nth" timer_create
    run "$BUILD/tests/faults/deny" timer_create "no memory is read"
    run "$BUILD/tests/faults/steady"
    exit $status
  fi
  if [ "${1-}" = all ]; then LIMIT=1800; fi
  # shellcheck disable=SC2086
  run "$BUILD/tests/faults/nth" ${1-}
  run "$BUILD/tests/faults/deny"
  run "$BUILD/tests/faults/steady"
  # shellcheck disable=SC2086
  run tests/faults/preloaded.py ${1-}
  run tests/faults/preloaded.py heap # each sample makes some of the calls: every n would be hours
fi
run tests/faults/preload.sh
exit $status
