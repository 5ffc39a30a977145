#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The lock trap (tests/fork/trap.c): with a model of a C library that holds its atfork lock while prepare handlers run,
# and with musl, which does. Where there is no musl-gcc that half is skipped, and said so. Then a short storm of forks.
# Usage: tests/fork/run.sh [storm]     storm: only that, 100,000 forks each way and some of a process of 4 GiB (minutes)
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
out=$BUILD/tests/fork
mkdir -p "$out"
status=0

run() { timeout -k 5 "${LIMIT:-100}" "$@" || { echo "tests/fork: $* failed ($?; 142: hung)"; status=1; }; }

make --no-print-directory -s -f core/Makefile BUILD="$BUILD" lib || exit 1
${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -I core/include tests/fork/storm.c \
  "$BUILD/lib/libonstack-heap.a" "$BUILD/lib/libonstack.a" \
  -o "$out/storm" -lpthread -ldl || exit 1

if [ "${1-}" = storm ]; then
  LIMIT=1800
  run "$out/storm" 100000 stop 250
  run "$out/storm" 100000 follow 250
  run "$out/storm" 20000 stop 0
  run "$out/storm" 20000 follow 0
  memory=$(awk '/MemAvailable/ { print int($2 / 1024 / 2) }' /proc/meminfo)
  run "$out/storm" 40 stop 10000 $((memory < 4096 ? memory : 4096))
  exit $status
fi

${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -DTRAP_MODEL -I core/include tests/fork/trap.c \
  "$BUILD/lib/libonstack.a" -o "$out/trap-model" -lpthread -ldl || exit 1
run "$out/trap-model"

if command -v musl-gcc >/dev/null; then
  make --no-print-directory -s -f core/Makefile BUILD="$BUILD/musl" CC=musl-gcc "$BUILD/musl/lib/libonstack.a" || exit 1
  musl-gcc -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -I core/include tests/fork/trap.c "$BUILD/musl/lib/libonstack.a" \
    -o "$out/trap-musl" -lpthread -ldl || exit 1
  run "$out/trap-musl"
else
  echo "skip the run with musl: there is no musl-gcc (Debian: musl-tools)"
fi

run "$out/storm" 2000 stop 1000
run "$out/storm" 800 follow 1000
run "$out/storm" 500 stop 0
run "$out/storm" 500 follow 0
exit $status
