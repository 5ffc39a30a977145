#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything that can disturb a profiler, at once (tests/soak/main.c). HOURS or SECONDS say how long; default 180 s. A third of
# it, 60 s at most, comes a second time with the preload sampling in it: below handlers that do not ask for the signal stack.
# SEED repeats the choices of another run (not its timing). GO_SECONDS: the Go package's storms after it, again and again
# for so long; default 0.
set -uo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
[ "$SECONDS" -gt 1 ] && seconds=$SECONDS || seconds=180 # bash takes its own counter's start from the environment
if [ -n "${HOURS:-}" ]; then seconds=$(awk -v hours="$HOURS" 'BEGIN { printf "%d", hours * 3600 }'); fi
case $seconds in
'' | *[!0-9]* | 0) echo "soak: HOURS and SECONDS are numbers above 0" >&2 && exit 2 ;;
esac
make --no-print-directory -s -f core/Makefile BUILD="$BUILD" lib &&
  make --no-print-directory -s -f tests/soak/Makefile BUILD="$BUILD" programs || exit 1
ulimit -c unlimited 2>/dev/null
# Its own watchdog says who stands still; this one is for when that one does.
timeout -k 10 $((seconds * 2 + 300)) "$BUILD/tests/soak/soak" "$BUILD/tests/soak" "$seconds" ${SEED:+"$SEED"}
status=$?
[ $status -lt 2 ] || echo "soak: FAILED: it ended with status $status (above 128: signal $((status - 128)))"

if [ $status = 0 ]; then
  preloaded=$((seconds / 3 < 60 ? (seconds + 2) / 3 : 60)) built=$(cd "$BUILD" && pwd)
  profile=$built/tests/soak/preload.pb.gz
  rm -f "$profile"
  echo "soak: with the preload"
  timeout -k 10 $((preloaded * 2 + 300)) env "LD_PRELOAD=$built/lib/libonstack-preload.so" "ONSTACK_PROFILE=$profile" \
    "$built/tests/soak/soak" "$built/tests/soak" "$preloaded" ${SEED:+"$SEED"}
  status=$?
  [ $status -lt 2 ] || echo "soak: FAILED: with the preload it ended with status $status (above 128: signal $((status - 128)))"
  [ $status != 0 ] || [ -s "$profile" ] || { echo "soak: FAILED: the preload wrote no profile"; status=1; }
fi

go_seconds=${GO_SECONDS:-0}
until=$((SECONDS + go_seconds)) runs=0
while [ $status = 0 ] && [ "$SECONDS" -lt "$until" ]; do
  (cd bindings/go && timeout -k 10 600 go test -count=1 -run 'Storm' .) || status=1
  runs=$((runs + 1))
done
[ "$go_seconds" = 0 ] || echo "soak: Go: $runs runs of the storms, $([ $status = 0 ] && echo "all ok" || echo FAILED)"
exit $status
