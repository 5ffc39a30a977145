// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service with two things to serve: its work, and its own profile.
//!
//! `/debug/pprof/profile?seconds=10&hz=99` answers a profile of the next seconds, as Go's net/http/pprof does, so that a
//! continuous profiler that scrapes Go services scrapes this one too. `/debug/pprof/delta` answers what was sampled since
//! it was asked last, by a guard that runs for ever: no sample falls between two scrapes.

mod profiles;
mod work;

use std::convert::Infallible;
use std::future::{ready, Future};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use profiles::Profiles;

type Response = hyper::Response<onstack_http::Body>;

/// Whoever comes on top is sent away.
const MOST_CONNECTIONS: usize = 64;
const TIME_TO_ASK: Duration = Duration::from_secs(10);
/// The longest profile, and time to take it.
const TIME_FOR_ALL: Duration = Duration::from_secs(330);
const TIME_TO_LEAVE: Duration = Duration::from_secs(1);
/// What accept complains about passes: no descriptor or memory now, a peer that has gone.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves for ever; an error when the service's own profile cannot be taken.
pub fn serve(listener: std::net::TcpListener) -> io::Result<()> {
    let profiles = Arc::new(Profiles::start().map_err(io::Error::other)?);
    let runtime = Builder::new_multi_thread()
        .thread_name("request")
        .enable_all()
        .build()?;
    listener.set_nonblocking(true)?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let seats = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            match listener.accept().await {
                Ok((stream, _)) => begin(stream, &profiles, &seats),
                Err(error) => {
                    eprintln!("rust-http: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    })
}

fn begin(stream: TcpStream, profiles: &Arc<Profiles>, seats: &Arc<Semaphore>) {
    let profiles = profiles.clone();
    let Ok(seat) = seats.clone().try_acquire_owned() else {
        let full = || text(503, "too many connections; ask again later\n");
        tokio::spawn(answer(stream, TIME_TO_LEAVE, move |_| ready(full())));
        return;
    };
    tokio::spawn(async move {
        let route = move |request| route(request, profiles.clone());
        answer(stream, TIME_FOR_ALL, route).await;
        drop(seat);
    });
}

/// One request. A peer that is slow or has gone is its own business.
async fn answer<F: Future<Output = Response>>(
    stream: TcpStream,
    time: Duration,
    route: impl Fn(Request<Incoming>) -> F,
) {
    let service = service_fn(|request| {
        let response = route(request);
        async { Ok::<_, Infallible>(response.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIME_TO_ASK)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = timeout(time, connection).await {
        eprintln!("rust-http: {error}");
    }
}

async fn route(request: Request<Incoming>, profiles: Arc<Profiles>) -> Response {
    match request.uri().path() {
        "/work" => blocking(|| text(200, &format!("{}\n", work::primes_below(200_000)))).await,
        "/debug/pprof/profile" => profiles.of_the_next(&request).await,
        "/debug/pprof/delta" => blocking(move || profiles.since_last()).await,
        _ => text(
            404,
            "try /work, /debug/pprof/profile?seconds=10&hz=99, /debug/pprof/delta\n",
        ),
    }
}

/// Not on the threads that wait for sockets.
async fn blocking(work: impl FnOnce() -> Response + Send + 'static) -> Response {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| text(500, "the work failed\n"))
}

fn text(status: u16, text: &str) -> Response {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).expect("one of ours");
    response
}
