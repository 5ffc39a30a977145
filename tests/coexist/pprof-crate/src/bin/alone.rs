// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `pprof` crate's profiler by itself: what a program is that knows nothing of us, for the preload (tests/preload). Its
//! handler is installed without SA_ONSTACK and needs more room than Rust's alternate stacks have.

use std::hint::black_box;
use std::process::ExitCode;
use std::thread;

use pprof::ProfilerGuard;

/// CPU seconds of the calling thread.
fn cpu() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

#[inline(never)]
fn burn() {
    while cpu() < 0.5 {
        for i in 0..20_000 {
            black_box(i);
        }
    }
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let guard = ProfilerGuard::new(100)?;
    let workers: Vec<_> = (0..2).map(|_| thread::spawn(burn)).collect();
    burn();
    for worker in workers {
        worker.join().map_err(|_| "a thread panicked")?;
    }
    let samples: isize = guard.report().build()?.data.values().sum();
    println!("{samples} samples");
    // As the preload's own test programs: a status that nothing else ends with.
    Ok(ExitCode::from(if samples > 20 { 3 } else { 4 }))
}
