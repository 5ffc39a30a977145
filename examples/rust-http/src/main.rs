// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo run --release -- 127.0.0.1:8080`, then
//! `go tool pprof 'http://127.0.0.1:8080/debug/pprof/profile?seconds=10'`.

use std::net::TcpListener;

fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(&address)?;
    println!("serving on http://{}", listener.local_addr()?);
    rust_http::serve(listener)
}
