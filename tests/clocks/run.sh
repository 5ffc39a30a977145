#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Clocks above the kernel's tick, side by side: the figures of docs/decisions/perf-clock.md. Minutes; 77: perf events are refused here.
# Usage: tests/clocks/run.sh [sessions] [rates] [perf]      after `make lib`
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
out=$build/clocks
mkdir -p "$out"
for program in ${*:-sessions rates perf}; do
  ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -I core/include "tests/clocks/$program.c" tests/clocks/clocks.c \
    "$build/lib/libonstack.a" -o "$out/$program" -lpthread -ldl -lrt
  "$out/$program"
done
