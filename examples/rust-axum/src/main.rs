// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo run --release -- 127.0.0.1:8080`, some `curl 'http://127.0.0.1:8080/primes/300000'`, then
//! `curl -o profile.pb.gz 'http://127.0.0.1:8080/debug/pprof/profile?seconds=10'` and
//! `go tool pprof -tags profile.pb.gz`, or `onstack report --by http.route profile.pb.gz`.

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8080".into());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("serving on http://{}", listener.local_addr()?);
    rust_axum::serve(listener, rust_axum::CpuClocks::default()).await
}
