#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Go programs over a library of another language and over generated code (tests/hosts/main.go). Called by `make stress`.
#
# The mock cluster of librdkafka ends at the first EINTR of its poll. The signals by which Go preempts goroutines make some of
# Go's own ticks into one (docs/SIGNALS.md), so it runs without them; and a tick that comes while a thread enters poll is one
# with any profiler that sends signals, so it has a second try. How it fares as users have it is counted beside both profilers,
# Go's alone and ours alone, and told in the closing line. It is not judged, because one EINTR decides a run: Go's profiler
# alone ends half of them (docs/SIGNALS.md), and of so few no bound tells a worse build from chance. Polls are judged by the
# thousand in TestSleepersBesideBothProfilers.
set -uo pipefail
cd "$(dirname "$0")"
out=$(cd ../.. && mkdir -p "${BUILD:-build}/tests" && cd "${BUILD:-build}/tests" && pwd)/hosts
passed=0 failed=0 told=
export ONSTACK_JUDGE=$out-judge
go build -o "$out" . && go build -C ../../bindings/go -o "$ONSTACK_JUDGE" ./internal/checker || exit 1

try() { # name, tries, command
  local said attempt
  for attempt in $(seq "$2"); do
    if said=$(timeout -k 5 90 "${@:3}" 2>"$out.log"); then
      echo "ok hosts: $1: $said$([ "$attempt" = 1 ] || echo " (at the ${attempt}th try)")"
      passed=$((passed + 1))
      return
    fi
    tail -3 "$out.log"
  done
  echo "not ok hosts: $1: failed $2 times"
  failed=$((failed + 1))
}

# One run of each in turn, so that other programs disturb them alike.
tell() { # name, rounds
  local profilers
  local -A held=([both]=0 [go]=0 [onstack]=0)
  for _ in $(seq "$2"); do
    for profilers in both go onstack; do
      # shellcheck disable=SC2086
      if timeout -k 5 90 "$out" "$1" ${profilers/both/} >"$out.log" 2>&1; then held[$profilers]=$((held[$profilers] + 1)); fi
    done
  done
  told="$1 with Go's preemption held in ${held[both]} of $2 runs beside both profilers"
  told+=", in ${held[go]} beside Go's, in ${held[onstack]} beside ours (not judged)"
}

GODEBUG=asyncpreemptoff=1 try kafka 2 "$out" kafka
tell kafka 5
try wazero 1 "$out" wazero
try duckdb 1 "$out" duckdb
# DuckDB brings an allocator of its own, which is asked what it has: of the resident size less than a twentieth is unexplained.
go build -tags nativeheap -o "$out-heap" . || exit 1
try "duckdb, memory" 1 "$out-heap" duckdb heap
echo "hosts: $passed passed, $failed failed; $told"
[ "$failed" = 0 ]
