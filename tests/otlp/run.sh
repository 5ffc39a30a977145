#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What onstack sends to OpenTelemetry, read by OpenTelemetry's own library and passed on by its collector, from Go, Rust and the
# command, also of profiles with samples, names and labels of any content.
set -euo pipefail
cd "$(dirname "$0")/../.."
export BUILD=${BUILD:-build}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/$BUILD/rust}
make --no-print-directory -s -f core/Makefile lib
make --no-print-directory -s -f tests/fuzz/Makefile "$BUILD/fuzz/replay_pprof"
(cd bindings/rust && cargo build --locked --quiet -p onstack-cli &&
  cargo build --locked --quiet -p onstack-http --features push --example push)
export ONSTACK_FUZZ_PROFILES=$PWD/$BUILD/fuzz/otlp-profiles ONSTACK_CLI=$CARGO_TARGET_DIR/debug/onstack
export ONSTACK_PUSHING=$CARGO_TARGET_DIR/debug/examples/push
export ONSTACK_PRELOAD=$PWD/$BUILD/lib/libonstack-preload.so
timeout -k 5 200 "$BUILD/fuzz/replay_pprof" -random=2000 tests/fuzz/corpus/pprof
cd tests/otlp
exec timeout -k 5 580 go test -count=1 "$@" .
