#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Figures beside pprof-rs: what a flame graph of a large program takes in time and memory, and what the crate adds to the
# build and the size of a program that does nothing. Prints a table. 77: pprof-rs or another crate cannot be had.
# Usage: bench/run.sh [seconds of profiling, 10]
set -euo pipefail
cd "$(dirname "$0")"
crate=$PWD/../onstack-pprof-compat
thin=$PWD/../onstack
seconds=${1:-10}
work=${BUILD_DIR:-$PWD/../../../build/rust}/bench-report
mkdir -p "$work"

# A program of some 25 MB: debug information of a real parser and code generator, linked in and used by eight threads.
project() { # directory, dependency line of the profiler, name of the crate
  mkdir -p "$1/src"
  cat >"$1/Cargo.toml" <<TOML
[package]
name = "subject"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
profiler = { $2 }
regex = "1"
syn = { version = "2", features = ["full", "extra-traits", "visit"] }
prettyplease = "0.2"
[profile.release]
debug = "limited"
TOML
  cp program/main.rs "$1/src/main.rs"
}
hello() {
  mkdir -p "$1/src"
  printf '[package]\nname = "hello"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\nprofiler = { %s }\n' "$2" >"$1/Cargo.toml"
  cat >"$1/src/main.rs" <<'RUST'
fn main() {
    let guard = profiler::ProfilerGuardBuilder::default().frequency(99).build().unwrap();
    println!("{:?}", guard.report().build().unwrap());
}
RUST
}
ours="package = \"onstack-pprof-compat\", path = \"$crate\""
theirs='package = "pprof", version = "=0.15.0"'

for name in onstack pprof-rs; do
  dependency=$ours
  [ $name = onstack ] || dependency=$theirs
  project "$work/$name" "$dependency, features = [\"flamegraph\"]"
  hello "$work/hello-$name" "$dependency"
  (cd "$work/$name" && CARGO_TARGET_DIR=$work/target cargo build --quiet --release 2>"$work/log") || {
    tail -5 "$work/log"; echo "SKIPPED: a crate cannot be had: nothing was measured" >&2; exit 77; }
  cp "$work/target/release/subject" "$work/subject-$name"
done

echo "flame graph of $seconds s at 99 Hz on 8 threads"
for name in onstack pprof-rs; do
  printf '  %-9s %5.1f MB program  ' $name "$(stat -c %s "$work/subject-$name" | awk '{ print $1 / 1e6 }')"
  (cd "$work" && timeout -k 5 $((seconds + 300)) "./subject-$name" "$seconds" "$work/$name.svg") || echo "failed or took longer than 300 s"
done

echo "a program that does nothing else (cold build, dependencies fetched before)"
hello "$work/hello-thin" "package = \"onstack\", path = \"$thin\""
for name in thin onstack pprof-rs; do
  cd "$work/hello-$name"
  cargo fetch --quiet
  for profile in dev release; do
    rm -rf target
    start=$(date +%s.%N)
    cargo build --quiet --profile $profile
    end=$(date +%s.%N)
    directory=$profile
    [ $profile = dev ] && directory=debug
    cp target/$directory/hello "$work/stripped" && strip "$work/stripped"
    printf '  %-9s %-8s %6.1f s  %8.0f KB stripped\n' $name $profile "$(echo "$end - $start" | bc)" \
      "$(stat -c %s "$work/stripped" | awk '{ print $1 / 1e3 }')"
  done
done
