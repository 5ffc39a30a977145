#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Stacks through Go: builds Go and mixed programs in many forms (pure, over C and C++ without frame pointers, callbacks,
# PIE, c-archive, c-shared, wasmtime, older toolchains, race), samples them with the default unwinder and checks every
# stack by the programs' own code. Arguments go to `go test` (-run TestStacks/pure). About four minutes.
set -uo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
export ONSTACK_BUILD=$PWD/$BUILD/go-stacks
mkdir -p "$ONSTACK_BUILD"
make --no-print-directory -j2 -f core/Makefile BUILD="$BUILD/go-stacks" lib || exit 1
out=$ONSTACK_BUILD/test.log
(cd tests/go && timeout -k 5 600 go test -count=1 -v -timeout 9m "$@" . ./trace) 2>&1 | tee "$out"
status=$?
# A group is its parts; each part counts once.
passed=$(grep -c '^    --- PASS\|^--- PASS: Test\(Table\|Broken\|Truncations\)' "$out")
failed=$(grep -c '^    --- FAIL\|^--- FAIL: Test\(Table\|Broken\|Truncations\)' "$out")
skipped=$(grep -c -- '--- SKIP' "$out")
echo "test-go-stacks: $passed passed, $failed failed, $skipped skipped"
[ "$status" -eq 0 ] && [ "$passed" -gt 0 ]
