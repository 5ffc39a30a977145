// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles itself for two seconds and writes `flamegraph.svg` and `profile.pb.gz` into the directory that is given,
//! or the current one.
//!
//! `cargo run --release --features flamegraph --example burn -- .`

use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

#[inline(never)]
fn collatz(limit: u64) -> u64 {
    (1..limit).map(steps).max().unwrap_or(0)
}

fn steps(start: u64) -> u64 {
    let (mut n, mut count) = (start, 0);
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        count += 1;
    }
    count
}

#[inline(never)]
fn sort(length: u32) -> u32 {
    let mut numbers: Vec<u32> = (0..length).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    numbers.sort_unstable();
    numbers[numbers.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);

    let guard = onstack_pprof_compat::ProfilerGuard::new(199)?;
    let end = Instant::now() + Duration::from_secs(2);
    let sorter = thread::Builder::new().name("sorter".into()).spawn(move || {
        while Instant::now() < end {
            black_box(sort(black_box(100_000)));
        }
    })?;
    while Instant::now() < end {
        black_box(collatz(black_box(20_000)));
    }
    sorter.join().map_err(|_| "the sorter panicked")?;
    guard.stop()?;

    let report = guard.report().build()?;
    report.flamegraph(File::create(directory.join("flamegraph.svg"))?)?;
    report.write_pprof(File::create(directory.join("profile.pb.gz"))?)?;
    print!("{:#}", report.top());
    let stats = guard.stats()?;
    println!("{} ticks, {} recorded, {} stacks truncated", stats.ticks, stats.recorded, stats.truncated);
    Ok(())
}
