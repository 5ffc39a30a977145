// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service of axum and tokio whose samples say what they were for: the route of a request, or the background task.
//!
//! `/debug/pprof/profile` answers a profile of the next seconds. It tells routes and tasks apart though all run the same
//! functions on the same threads. The service's own clocks say what the profile must say (`tests/by_label.rs`).

mod clocks;
mod labelled;
mod work;

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, Next};
use axum::response::Response;
use axum::routing::get;
use axum::Router;
use tokio::net::TcpListener;
use tokio::time::sleep;

pub use clocks::CpuClocks;
use labelled::Work;

/// Serves for ever.
pub async fn serve(listener: TcpListener, clocks: CpuClocks) -> std::io::Result<()> {
    let tasks = ["compact", "report"].map(|name| Work::task(name, &clocks));
    let [compact, report] = tasks;
    tokio::spawn(compact.run(in_background()));
    tokio::spawn(async move {
        while report
            .run_blocking(|| work::primes_in(2..400_000))
            .await
            .is_ok()
        {
            sleep(Duration::from_millis(5)).await;
        }
    });
    let app = Router::new()
        .route("/primes/{limit}", get(primes))
        .route("/blocking/{limit}", get(blocking))
        .route_layer(from_fn_with_state(clocks, by_route))
        .merge(onstack_http::Handler::new().router());
    axum::serve(listener, app).await
}

async fn in_background() {
    loop {
        work::primes_below(400_000).await;
        sleep(Duration::from_millis(5)).await;
    }
}

/// Around each handler.
async fn by_route(State(clocks): State<CpuClocks>, mut request: Request, next: Next) -> Response {
    let work = Work::request(&request, &clocks);
    request.extensions_mut().insert(work.clone());
    work.run(next.run(request)).await
}

async fn primes(Path(limit): Path<u32>) -> String {
    format!("{}\n", work::primes_below(limit.min(1_000_000)).await)
}

/// What keeps a thread for long has one of its own, and takes its labels there.
async fn blocking(
    Path(limit): Path<u32>,
    work: axum::Extension<Work>,
) -> Result<String, StatusCode> {
    let primes = work
        .run_blocking(move || work::primes_in(2..limit.min(1_000_000)))
        .await;
    let primes = primes.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(format!("{primes}\n"))
}
