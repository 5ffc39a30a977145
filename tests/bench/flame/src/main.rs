// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the end of sampling to the flame graph: symbols, inlined functions, picture. The work is regular expressions, a
//! library of many small functions. PROGRAM VARIANT CASE seconds=S; prints figures as the benchmark's programs do.

#[cfg(feature = "onstack")]
use onstack as profiler;
#[cfg(feature = "pprof-rs")]
use pprof as profiler;

use std::hint::black_box;
use std::time::{Duration, Instant};

use regex::Regex;

const HZ: i32 = 250;

fn work(turn: u32) {
    let word = format!(r"(?i)\b(on|off)?stack{turn}\b|(\d{{1,3}}\.){{3}}\d{{1,3}}|[\w.+-]+@\w+\.\w{{2,}}");
    let text = format!("host 10.0.0.{turn} user{turn}@example.org OnStack{turn} offstack ").repeat(20);
    let expression = Regex::new(&word).expect("it is well formed");
    black_box(expression.captures_iter(&text).map(|c| c.len()).sum::<usize>());
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    let mut turn = 0;
    while Instant::now() < end {
        work(turn % 1000);
        turn += 1;
    }
}

/// VmHWM or VmRSS, in KiB.
fn memory(what: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

fn emit(metric: &str, unit: &str, value: f64) {
    println!("{{\"metric\": \"{metric}\", \"unit\": \"{unit}\", \"value\": {value}}}");
}

fn seconds() -> f64 {
    std::env::args().find_map(|a| a.strip_prefix("seconds=")?.parse().ok()).unwrap_or(3.0)
}

fn main() {
    let guard = profiler::ProfilerGuardBuilder::default().frequency(HZ).build().expect("a profiler starts");
    burn(Duration::from_secs_f64(seconds()));
    // The high-water mark begins anew here.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (before, begin) = (memory("VmRSS"), Instant::now());
    let report = guard.report().build().expect("a report is made");
    let mut picture = Vec::new();
    report.flamegraph(&mut picture).expect("a flame graph is made");
    let took = begin.elapsed();
    let peak = memory("VmHWM") - before;
    let shown = String::from_utf8_lossy(&picture).matches("<title>").count();
    assert!(shown > 20, "a picture of {shown} frames");
    emit("picture", "ms", took.as_secs_f64() * 1000.0);
    emit("peak", "KiB", peak.max(0.0));
    emit("stacks", "", report.data.len() as f64);
}
