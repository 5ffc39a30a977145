// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service with two things to serve: its work, and its own profile.
//!
//! `/debug/pprof/profile?seconds=10&hz=99` answers a profile of the next seconds, as Go's net/http/pprof does, so that a
//! continuous profiler that scrapes Go services scrapes this one too. `/debug/pprof/delta` answers what was sampled since
//! it was asked last, by a guard that runs for ever: no sample falls between two scrapes.

mod http;
mod profiles;
mod work;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use http::{Request, Response};
use profiles::Profiles;

/// Serves until the listener fails; a thread for each connection.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    let profiles = Arc::new(Profiles::start().map_err(io::Error::other)?);
    for stream in listener.incoming() {
        let (stream, profiles) = (stream?, profiles.clone());
        thread::Builder::new()
            .name("request".into())
            .spawn(move || {
                if let Err(error) = answer(stream, &profiles) {
                    eprintln!("rust-http: {error}");
                }
            })?;
    }
    Ok(())
}

fn answer(mut stream: TcpStream, profiles: &Profiles) -> io::Result<()> {
    let response = match Request::read(&mut stream)? {
        None => Response::text(
            400,
            "this is no HTTP request of the kind that is served here\n",
        ),
        Some(request) => route(&request, profiles),
    };
    response.write(&mut stream)
}

fn route(request: &Request, profiles: &Profiles) -> Response {
    match request.path.as_str() {
        "/work" => Response::text(200, &format!("{}\n", work::primes_below(200_000))),
        "/debug/pprof/profile" => profiles.of_the_next(request),
        "/debug/pprof/delta" => profiles.since_last(),
        _ => Response::text(
            404,
            "try /work, /debug/pprof/profile?seconds=10&hz=99, /debug/pprof/delta\n",
        ),
    }
}
