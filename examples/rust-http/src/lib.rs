// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service with two things to serve: its work, and its own profile.
//!
//! `/debug/pprof/profile?seconds=10&hz=99` answers a profile of the next seconds, as Go's net/http/pprof does, so that a
//! continuous profiler that scrapes Go services scrapes this one too. `/debug/pprof/delta` answers what was sampled since
//! it was asked last, by a guard that runs for ever: no sample falls between two scrapes.

mod http;
mod hurry;
mod profiles;
mod work;

use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::{Request, Response};
use profiles::Profiles;

/// A thread for each; whoever comes on top is sent away.
const MOST_CONNECTIONS: usize = 64;
/// What accept complains about passes: no descriptor or memory now, a peer that has gone.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves for ever; an error when the service's own profile cannot be taken.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    let profiles = Arc::new(Profiles::start().map_err(io::Error::other)?);
    // Each connection holds a copy.
    let seats = Arc::new(());
    for stream in listener.incoming() {
        let begun = stream.and_then(|stream| begin(stream, &profiles, &seats));
        if let Err(error) = begun {
            eprintln!("rust-http: {error}");
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn begin(stream: TcpStream, profiles: &Arc<Profiles>, seats: &Arc<()>) -> io::Result<()> {
    if Arc::strong_count(seats) > MOST_CONNECTIONS {
        send_away(&stream);
        return Ok(());
    }
    let (profiles, seat) = (profiles.clone(), seats.clone());
    let answer = move || {
        if let Err(error) = answer(&stream, &profiles) {
            eprintln!("rust-http: {error}");
        }
        drop(seat);
    };
    let name = thread::Builder::new().name("request".into());
    name.spawn(answer).map(drop)
}

/// On the thread that accepts: it must wait for nobody, and an empty socket takes these few bytes at once. The peer may
/// have gone, which is its own business.
fn send_away(stream: &TcpStream) {
    let response = Response::text(503, "too many connections; ask again later\n");
    let sent = stream
        .set_nonblocking(true)
        .and_then(|()| response.write(stream));
    // What was not read when the socket is closed would take the answer back.
    let _ = sent.and_then(|()| stream.shutdown(Shutdown::Write));
    let _ = (&*stream).read(&mut [0; 4096]);
}

fn answer(stream: &TcpStream, profiles: &Profiles) -> io::Result<()> {
    let response = match Request::read(stream)? {
        None => Response::text(
            400,
            "this is no HTTP request of the kind that is served here\n",
        ),
        Some(request) => route(&request, profiles),
    };
    response.write(stream)
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
