// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service whose answers take some work: words are made, sorted and counted.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::extract::Path;
use axum::routing::get;
use axum::Router;

async fn words(Path(count): Path<u32>) -> String {
    let mut seen = BTreeMap::new();
    for i in 0..count {
        let word = format!("{:x}", i.wrapping_mul(2_654_435_761) >> 24);
        *seen.entry(word).or_insert(0u32) += 1;
    }
    let mut answer = String::new();
    for (word, times) in &seen {
        let _ = writeln!(answer, "{word} {times}");
    }
    answer
}

#[tokio::main(worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, Router::new().route("/words/{count}", get(words))).await
}
