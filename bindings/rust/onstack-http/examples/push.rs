// SPDX-License-Identifier: MIT OR Apache-2.0
//! Works for some seconds and pushes the profiles of that: to Pyroscope, or by OTLP to an OpenTelemetry collector.
//!
//! `cargo run --release --features push --example push -- ingest http://localhost:4040`, or `otlp http://localhost:4318`

use std::hint::black_box;
use std::time::{Duration, Instant};

use onstack_http::{PushOptions, PushProtocol, Pusher};

#[inline(never)]
fn collatz(limit: u64) -> u32 {
    (1..limit).map(steps).max().unwrap_or(0)
}

fn steps(start: u64) -> u32 {
    let (mut n, mut count) = (start, 0);
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        count += 1;
    }
    count
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (protocol, url) = match &arguments[..] {
        [name, url] if name == "ingest" => (PushProtocol::Ingest, url),
        [name, url] if name == "otlp" => (PushProtocol::Otlp, url),
        _ => return Err("usage: push ingest|otlp URL".into()),
    };
    let options = PushOptions::new(url, "collatz")
        .protocol(protocol)
        .label("example", "push")
        .interval(Duration::from_secs(1))
        .flush_timeout(Duration::from_secs(60))
        .report(|event| eprintln!("{}: {}", event.outcome, event.error));
    let pusher = Pusher::start(options)?;
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        black_box(collatz(black_box(10_000)));
    }
    let stats = pusher.stop();
    println!("{stats:?}");
    if stats.sent + stats.empty == stats.taken {
        return Ok(());
    }
    Err("not all profiles were sent".into())
}
