#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What a running profile costs a Go HTTP server: CPU time of a request with onstack at 100 Hz, with Go's own profiler at
# its 100 Hz, and without any, in paired rounds whose order is random. Prints ratios with 95 % intervals; it checks nothing,
# since the machine may be busy with other things.
# Usage: tests/bench/http/run.sh [rounds, 30: about two minutes]
set -euo pipefail
cd "$(dirname "$0")/../../../bindings/go"
rounds=${1:-30}
echo "load before: $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) processors, $(go env GOVERSION)"
ONSTACK_TEST_COST=$rounds timeout -k 5 $((rounds * 8 + 120)) go test -count=1 -v -run '^TestCost$' . |
  sed -n 's/.*cost_test.go:[0-9]*: //p; /^--- FAIL\|^FAIL\|panic:/p'
