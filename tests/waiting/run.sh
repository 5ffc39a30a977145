#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# How many stacks of blocked threads can be walked from SP and PC alone: run.sh PROGRAM [ARGUMENT...] runs it, for more than
# WAITING_SECONDS (4), with tests/waiting/blocked.c in it, and prints what was compared.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/build/waiting
mkdir -p "$out"
make -s -C "$root" lib >/dev/null
cc -O2 -g -std=gnu11 -Wall -Wextra -Wno-unused-function -D_GNU_SOURCE -shared -fPIC -I "$root/core/include" -I "$root/core" \
  "$root/tests/waiting/blocked.c" "$root/build/lib/libonstack.a" -o "$out/blocked.so" -lpthread -ldl
report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
env LD_PRELOAD="$out/blocked.so" WAITING_OUT="$report" WAITING_AFTER="${WAITING_AFTER:-1}" WAITING_SECONDS="${WAITING_SECONDS:-4}" \
  "$@" || status=$?
cat "$report"
[ -s "$report" ] || { echo "run.sh: no report: the program ended before it was due (status $status)" >&2; exit 1; }
