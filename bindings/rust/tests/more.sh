#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# What takes the crates' users longer than a test may: benchmarks under each version of criterion, profiled with
# `--profile-time`; heap profiles over jemalloc and mimalloc; labels of polls; the crate linked to an installed C library; the crates as they would be published.
# Usage: tests/more.sh [criterion] [allocators] [system] [labels] [package]   (default: all). 77: a part could not be had and was skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD/../..
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/build/rust}
work=$CARGO_TARGET_DIR/more
mkdir -p "$work"
failed=0 skipped=0
fail() { echo "FAIL $*"; failed=1; }

# A program of its own outside the workspace, as users have it.
project() { # name, dependencies
  mkdir -p "$work/$1/src"
  printf '[package]\nname = "%s"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s\n' "$1" "$2" >"$work/$1/Cargo.toml"
}

criterion_version() { # 0.6, output, file that it leaves
  local name=criterion-${1/./_}
  project "$name" "pprof = { package = \"onstack-pprof-compat\", path = \"$PWD/onstack-pprof-compat\", features = [\"flamegraph\", \"$name\"] }
criterion = { version = \"$1\", default-features = false }"
  cat >"$work/$name/src/main.rs" <<RUST
use criterion::{criterion_group, criterion_main, Criterion};
use pprof::criterion::{Output, PProfProfiler};

#[inline(never)]
fn mixed(rounds: u64) -> u64 {
    (0..rounds).fold(rounds | 1, |state, _| (state ^ (state >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn bench(criterion: &mut Criterion) {
    criterion.bench_function("Mixing", |bencher| bencher.iter(|| mixed(std::hint::black_box(20_000))));
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_profiler(PProfProfiler::new(250, $2));
    targets = bench
}
criterion_main!(benches);
RUST
  (cd "$work/$name" && cargo build --quiet --release) || { fail "criterion $1: build"; return; }
  rm -rf "$work/$name/run"
  mkdir "$work/$name/run"
  # It wants to be told that it is a benchmark.
  (cd "$work/$name/run" && CRITERION_HOME=$PWD timeout -k 5 120 "$CARGO_TARGET_DIR/release/$name" --bench --profile-time 2 >log 2>&1) ||
    { fail "criterion $1: run"; tail -5 "$work/$name/run/log"; return; }
  grep -qa 'mixed' "$work/$name/run/Mixing/profile/$3" || { fail "criterion $1: $3 does not know what was measured"; return; }
  echo "ok   criterion $1: $3"
}

criterion() {
  criterion_version 0.5 'Output::Flamegraph(None)' flamegraph.svg
  criterion_version 0.6 'Output::Protobuf' profile.pb
  criterion_version 0.7 'Output::Flamegraph(None)' flamegraph.svg
  criterion_version 0.8 'Output::Protobuf' profile.pb
}

# Found by pkg-config in a directory of its own, and used from there: the program must hold no copy of the core.
system() {
  local prefix=$work/prefix
  command -v pkg-config >/dev/null 2>&1 || { echo "SKIPPED: pkg-config is missing: the feature 'system' was NOT tried"; skipped=1; return; }
  rm -rf "$prefix"
  make --no-print-directory -s -C "$root" install PREFIX="$prefix" >"$work/install.log" 2>&1 ||
    { fail "system: make install"; tail -5 "$work/install.log"; return; }
  local pc
  pc=$(dirname "$(find "$prefix" -name onstack.pc | head -1)")
  project on-system "onstack = { path = \"$PWD/onstack\", features = [\"system\"] }"
  cat >"$work/on-system/src/main.rs" <<'RUST'
fn main() {
    let guard = onstack::ProfilerGuard::new(250).unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut x = 1u64;
    while guard.stats().unwrap().recorded < 5 {
        assert!(std::time::Instant::now() < limit, "no sample within 20 s");
        (0..100_000).for_each(|_| x = std::hint::black_box(x.wrapping_mul(7)));
    }
    guard.stop().unwrap();
    println!("{} bytes", guard.pprof().unwrap().len());
}
RUST
  (cd "$work/on-system" && PKG_CONFIG_PATH=$pc cargo build --quiet --release) || { fail "system: build"; return; }
  local program=$CARGO_TARGET_DIR/release/on-system library
  readelf -d "$program" | grep -q 'NEEDED.*libonstack\.so' || { fail "system: the program does not ask for libonstack.so"; return; }
  library=$(dirname "$(find "$prefix" -name libonstack.so | head -1)")
  LD_LIBRARY_PATH=$library timeout -k 5 60 "$program" || { fail "system: run"; return; }
  # Without the library there is a text that says what to do.
  (cd "$work/on-system" && touch src/main.rs && PKG_CONFIG_PATH=/nowhere PKG_CONFIG_LIBDIR=/nowhere \
    CARGO_TARGET_DIR=$work/on-system/without cargo build --quiet --release >"$work/without.log" 2>&1) && fail "system: built without a library"
  grep -q 'PKG_CONFIG_PATH' "$work/without.log" || fail "system: no text says what to do without a library"
  rm -rf "$work/on-system/without"
  echo "ok   system: linked to an installed library"
}

# Others' allocators below ours: blocks that begin and end with the layouts that they insist on, and exact books.
allocators() {
  project allocators "onstack = { path = \"$PWD/onstack\" }
onstack-profile = { path = \"$PWD/onstack-profile\" }
tikv-jemallocator = \"0.6\"
mimalloc = { version = \"0.1\", default-features = false }"
  cat >"$work/allocators/src/common.rs" <<'RUST'
use onstack::{Clock, ProfilerGuardBuilder};
use onstack_profile::Profiled;
use std::hint::black_box;

#[inline(never)]
fn keep(size: usize) -> Vec<Vec<u8>> {
    (0..1000).map(|_| black_box(vec![1u8; size])).collect()
}

fn main() {
    let guard = ProfilerGuardBuilder::default().clock(Clock::Heap).heap_interval(1);
    let guard = guard.heap_objects(1 << 18).buffer_bytes(64 << 20).build().unwrap();
    let churn = std::thread::spawn(|| {
        let mut text = String::new();
        for round in 0..20_000 {
            text.push_str("more");
            if round % 100 == 0 {
                text = String::new();
            }
        }
    });
    churn.join().unwrap();
    guard.profile().unwrap(); // all ends are known: there is a place for each block that comes
    let kept = [keep(8), keep(600), keep(5000), keep(100_000)];
    let books: usize = kept.iter().flatten().map(Vec::capacity).sum();
    let lists = 4 * 1000 * std::mem::size_of::<Vec<u8>>();
    let profile = guard.profile().unwrap();
    let found = profile.top().get(concat!(module_path!(), "::keep")).unwrap().cum;
    assert_eq!(found, (books + lists) as i64);
    drop(guard);
    drop(kept);
}
RUST
  local name allocator
  for name in jemalloc mimalloc; do
    [ $name = jemalloc ] && allocator=tikv_jemallocator::Jemalloc || allocator=mimalloc::MiMalloc
    mkdir -p "$work/allocators/src/bin"
    { echo "#[global_allocator]"
      echo "static ALLOCATOR: onstack::heap::Allocator<$allocator> = onstack::heap::Allocator::new($allocator);"
      cat "$work/allocators/src/common.rs"; } >"$work/allocators/src/bin/over_$name.rs"
    (cd "$work/allocators" && cargo build --quiet --release --bin over_$name) || { fail "allocators: build over $name"; continue; }
    timeout -k 5 60 "$CARGO_TARGET_DIR/release/over_$name" && echo "ok   allocators: over $name" || fail "allocators: over $name"
  done
}

# What a poll pays for labels: the best of three runs, for other programs only make it dearer.
labels() {
  local said least=99
  for _ in 1 2 3; do
    said=$(timeout -k 5 300 bench/labels.sh) || { fail "labels"; return; }
    echo "$said"
    least=$(awk -v least="$least" '/with two labels:/ && $(NF - 1) < least { least = $(NF - 1) } END { print least }' <<<"$said")
  done
  awk -v ns="$least" 'BEGIN { exit !(ns <= 20) }' && echo "ok   labels: $least ns more a poll" || fail "labels: $least ns more a poll, 20 at most"
}

package() {
  tests/check.sh package || failed=1
}

for part in ${*:-criterion allocators system labels package}; do "$part"; done
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 77
echo "rust-more: passed: ${*:-criterion allocators system labels package}"
