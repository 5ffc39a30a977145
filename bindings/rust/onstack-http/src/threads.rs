// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests for what all threads do now.

use std::time::{Duration, Instant};

use http::{Request, Response, StatusCode};

#[cfg(any(feature = "axum", feature = "hyper"))]
use crate::handler::Served;
use crate::handler::{check_method, make, respond, Answer, Body, Refusal};
use crate::seats::Seat;

/// Beside Go's paths, as the Go package's handler has it.
pub const THREADS_PATH: &str = "/debug/pprof/threads";

/// More than most dumps take.
const DURATION: Duration = Duration::from_secs(1);
/// Of dumps and profiles at once: a process that hangs can be asked while profiles are taken, and has sessions left for itself.
const MOST: usize = 6;

/// Answers with the stacks of all threads and what each waits for: [`onstack_profile::dump_profile`], or with `debug=1` the text of
/// [`onstack_profile::dump`]. Mount it at [`THREADS_PATH`], where profiles are not public. It counts as a profile: beyond six of
/// both the answer is 429 with `Retry-After`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

impl Threads {
    /// Answers a request; its body is not looked at.
    pub fn answer<B>(self, request: &Request<B>) -> Answer {
        let refused = check_method(request.method());
        let query = request.uri().query().unwrap_or_default();
        let is_text = form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == "debug")
            .is_some_and(|(_, value)| !value.is_empty() && value != "0");
        Box::pin(async move {
            let answer = match refused {
                Ok(()) => serve(is_text).await,
                Err(refusal) => Err(refusal),
            };
            answer.unwrap_or_else(Refusal::respond)
        })
    }

    #[cfg(any(feature = "axum", feature = "hyper"))]
    pub(crate) fn serve<B>(self, request: &Request<B>) -> Served {
        let answer = self.answer(request);
        Box::pin(async move { Ok(answer.await) })
    }
}

async fn serve(is_text: bool) -> Result<Response<Body>, Refusal> {
    let Some(seat) = Seat::take(Instant::now() + DURATION, MOST) else {
        let text = format!(
            "onstack: {MOST} profiles and dumps are being made over HTTP already: ask again when they are done"
        );
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, text));
    };
    if is_text {
        let bytes = make(seat, |_| Some(onstack_profile::dump().map(String::into_bytes))).await?;
        return Ok(respond(bytes, "text/plain; charset=utf-8", None));
    }
    let bytes = make(seat, |_| Some(profile())).await?;
    Ok(respond(bytes, "application/octet-stream", Some("attachment; filename=\"threads.pb.gz\"")))
}

fn profile() -> onstack::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    onstack_profile::dump_profile()?.write_pprof(&mut bytes)?;
    Ok(bytes)
}
