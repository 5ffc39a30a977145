#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Figures: what labels cost a poll of a future, and the layer of onstack-tracing a span.
# Usage: bench/labels.sh
set -euo pipefail
cd "$(dirname "$0")"
work=${BUILD_DIR:-$PWD/../../../build/rust}/bench-labels
mkdir -p "$work/src"
cat >"$work/Cargo.toml" <<TOML
[package]
name = "bench-labels"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
onstack = { path = "$PWD/../onstack" }
onstack-tracing = { path = "$PWD/../onstack-tracing" }
tracing = "0.1"
tracing-subscriber = { version = "0.3", default-features = false, features = ["registry", "std"] }
TOML
cp labels/main.rs "$work/src/main.rs"
cp -n ../Cargo.lock "$work/Cargo.lock" 2>/dev/null || true
cd "$work"
CARGO_TARGET_DIR=$work/target cargo build --quiet --release
exec "$work/target/release/bench-labels"
