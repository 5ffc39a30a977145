// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eight threads parse, print and search Rust source for some seconds under the profiler; then a flame graph is made, and
//! what that took is printed.

use std::time::{Duration, Instant};
use std::{env, fs, hint, thread};

const SOURCE: &str = include_str!("main.rs");

fn work(until: Instant) -> usize {
    let words = regex::Regex::new(r"(?x) \b (let|fn|use) \s+ (\w+ (::\w+)*) | \d+ \s* [*+] \s* \w+").unwrap();
    let mut sum = 0;
    while Instant::now() < until {
        let file = syn::parse_file(hint::black_box(SOURCE)).unwrap();
        let text = prettyplease::unparse(&file);
        sum += words.find_iter(&text).count() + format!("{file:?}").len();
    }
    sum
}

/// A line of /proc/self/status, in KiB.
fn memory(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let until = Instant::now() + Duration::from_secs(arguments[1].parse().unwrap());
    let guard = profiler::ProfilerGuardBuilder::default().frequency(99).build().unwrap();
    let threads: Vec<_> = (0..8).map(|_| thread::spawn(move || work(until))).collect();
    threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 0));

    // The peak counts from here on.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before, start) = (memory("VmRSS"), Instant::now());
    let report = guard.report().build().unwrap();
    report.flamegraph(fs::File::create(&arguments[2]).unwrap()).unwrap();
    let (took, peak) = (start.elapsed(), memory("VmHWM"));
    let stacks = report.data.len();
    drop(report);
    drop(guard);
    let (kept, mega) = (memory("VmRSS").saturating_sub(before), |kib: u64| kib as f64 / 1024.0);
    println!(
        "{stacks:5} stacks  {:7.3} s  {:6.1} MiB more at the peak ({:.1} MiB in all)  {:6.1} MiB kept",
        took.as_secs_f64(),
        mega(peak.saturating_sub(before)),
        mega(peak),
        mega(kept)
    );
}
