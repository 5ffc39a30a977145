#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the command and tries the pages of `onstack view` in a real browser (run.py). Usage: run.sh [WORD...]
set -euo pipefail
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
mkdir -p "$BUILD"
target=$(realpath "$BUILD")/rust
ONSTACK_DEPS=view ci/deps.sh
(cd bindings/rust && CARGO_TARGET_DIR=$target cargo build --locked --quiet -p onstack-cli)
exec timeout -k 5 400 tests/view/run.py "$target/debug/onstack" "$BUILD/view" "$@"
