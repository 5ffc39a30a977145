#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Go programs over a library of another language and over generated code (tests/hosts/main.go). Called by `make stress`.
#
# The mock cluster of librdkafka ends at the first EINTR of its poll. The signals by which Go preempts goroutines make some of
# Go's own ticks into one (docs/SIGNALS.md), so it runs without them; and a tick that comes while a thread enters poll is one with
# any profiler that sends signals, so it has a second try. How it fares as users have it is told beside Go's profiler alone and
# ours alone, and not judged.
set -uo pipefail
cd "$(dirname "$0")"
out=$(cd ../.. && mkdir -p "${BUILD:-build}/tests" && cd "${BUILD:-build}/tests" && pwd)/hosts
passed=0 failed=0
export ONSTACK_JUDGE=$out-judge
go build -o "$out" . && go build -C ../../bindings/go -o "$ONSTACK_JUDGE" ./internal/checker || exit 1

try() { # name, tries
  local said attempt
  for attempt in $(seq "$2"); do
    if said=$(timeout -k 5 90 "$out" "$1" 2>"$out.log"); then
      echo "ok hosts: $1: $said$([ "$attempt" = 1 ] || echo " (at the ${attempt}th try)")"
      passed=$((passed + 1))
      return
    fi
    tail -3 "$out.log"
  done
  echo "not ok hosts: $1: failed $2 times"
  failed=$((failed + 1))
}

tell() { # name, runs
  local held profilers text=
  for profilers in "" go onstack; do
    held=0
    for _ in $(seq "$2"); do
      # shellcheck disable=SC2086
      if timeout -k 5 90 "$out" "$1" $profilers >"$out.log" 2>&1; then held=$((held + 1)); fi
    done
    text+=", with ${profilers:-both} in $held of $2 runs"
  done
  echo "hosts: $1 with Go's preemption by signals held${text#,} (not judged)"
}

GODEBUG=asyncpreemptoff=1 try kafka 2
tell kafka 5
try wazero 1
try duckdb 1
echo "hosts: $passed passed, $failed failed"
[ "$failed" = 0 ]
