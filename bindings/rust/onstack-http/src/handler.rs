// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests for profiles, and their answers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use onstack::ProfilerGuardBuilder;
use onstack_profile::Profiled;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::options::HandlerOptions;
use crate::query::Asked;
use crate::seats::{self, Seat};

/// Where Go's net/http/pprof has its CPU profile, and a path beside it for programs that serve both.
pub const PATHS: [&str; 2] = ["/debug/pprof/profile", "/debug/pprof/onstack"];

/// The body of an answer.
pub type Body = Full<Bytes>;

/// An answer in the making. Dropped, as servers do when the client goes away, it ends its profile.
pub type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Profiles the process for a while and answers with gzip-compressed pprof, as Go's net/http/pprof does. The query's
/// parameters are
///
/// - `seconds`: how long, a decimal number up to [`HandlerOptions::max_duration`]; default 30
/// - `hz`: samples a second of the clock, 1 to [`HandlerOptions::max_rate`]; default 99, with the clock
///   wall 20, or what [`HandlerOptions::profile`] says
/// - `clock`: `cpu`, `wall` for real time, which shows what waits too, or `wall-signal`, the same by signals; default `cpu`,
///   or what [`HandlerOptions::profile`] says
/// - `timeline`: `1` keeps when each sample was taken, for `onstack view` and `onstack convert`
///
/// Requests are profiled side by side, each by its own session. Beyond [`HandlerOptions::max_concurrent`] of them the answer
/// is 429, and where the process itself uses all sessions 503, both with `Retry-After`. Bad values are answered with 400
/// and a text.
///
/// A request has a thread of its own, `onstack-http`, which waits (`clock=wall` shows it) and looks names up, so that no
/// thread of the program's runtime is blocked; between requests there is none. No particular runtime is needed. Any path is
/// served: mount it at [`PATHS`], where profiles are not public. Middleware that ends slow requests must allow more than
/// `seconds`.
#[derive(Clone, Debug)]
pub struct Handler {
    options: Arc<HandlerOptions>,
}

/// With the default options.
impl Default for Handler {
    fn default() -> Self {
        Self { options: Arc::new(HandlerOptions::new()) }
    }
}

impl Handler {
    /// With the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// With other limits.
    ///
    /// # Errors
    /// [`Error::Option`] with the name of the option.
    pub fn with(options: HandlerOptions) -> Result<Self, Error> {
        options.check()?;
        Ok(Self { options: Arc::new(options) })
    }

    /// Answers a request; its body is not looked at.
    pub fn answer<B>(&self, request: &Request<B>) -> Answer {
        let asked = self.asked(request.method(), request.uri().query().unwrap_or_default());
        let options = self.options.clone();
        Box::pin(async move {
            let answer = match asked {
                Ok(asked) => serve(&options, asked).await,
                Err(refusal) => Err(refusal),
            };
            answer.unwrap_or_else(Refusal::respond)
        })
    }

    #[cfg(any(feature = "axum", feature = "hyper"))]
    pub(crate) fn serve<B>(&self, request: &Request<B>) -> Served {
        let answer = self.answer(request);
        Box::pin(async move { Ok(answer.await) })
    }

    fn asked(&self, method: &Method, query: &str) -> Result<Asked, Refusal> {
        check_method(method)?;
        Asked::parse(query, &self.options).map_err(|text| Refusal::new(StatusCode::BAD_REQUEST, text))
    }
}

pub(crate) fn check_method(method: &Method) -> Result<(), Refusal> {
    if method == Method::GET {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "onstack: use GET"))
}

/// What services answer with.
#[cfg(any(feature = "axum", feature = "hyper"))]
pub(crate) type Served = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

async fn serve(options: &HandlerOptions, asked: Asked) -> Result<Response<Body>, Refusal> {
    let duration = asked.duration;
    let Some(seat) = Seat::take(Instant::now() + duration, options.max_concurrent) else {
        return Err(Refusal::of_crowd(options.max_concurrent));
    };
    let builder = asked.apply(options);
    let bytes = make(seat, move |gone| profile(builder, duration, gone)).await?;
    Ok(respond(bytes, "application/octet-stream", Some("attachment; filename=\"profile.pb.gz\"")))
}

/// What a thread of its own makes of a request; nothing where nobody waits for it any more, which `gone` tells.
pub(crate) async fn make(
    seat: Seat,
    work: impl FnOnce(&Receiver<Infallible>) -> Option<onstack::Result<Vec<u8>>> + Send + 'static,
) -> Result<Bytes, Refusal> {
    let (sender, receiver) = oneshot::channel();
    // Dropped with this future.
    let (_here, gone) = mpsc::channel();
    let work = move || match work(&gone) {
        None => {}
        Some(Ok(bytes)) => drop(sender.send(Ok(Bytes::from_owner(Held { bytes, _seat: seat })))),
        Some(Err(error)) => {
            drop(seat); // a refused request is none of those that the refusal counts
            let _ = sender.send(Err(error));
        }
    };
    thread::Builder::new().name("onstack-http".into()).spawn(work).map_err(|error| Refusal::of_threads(&error))?;
    match receiver.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(Refusal::of(&error)),
        Err(_) => Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "onstack: taking the profile failed by a panic")),
    }
}

/// Bytes that keep the request's seat until the server has written or dropped them.
struct Held {
    bytes: Vec<u8>,
    _seat: Seat,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Nothing when the client has gone.
fn profile(
    builder: ProfilerGuardBuilder,
    duration: Duration,
    gone: &Receiver<Infallible>,
) -> Option<onstack::Result<Vec<u8>>> {
    let guard = match builder.build() {
        Ok(guard) => guard,
        Err(error) => return Some(Err(error)),
    };
    match gone.recv_timeout(duration) {
        Err(RecvTimeoutError::Timeout) => {}
        Err(RecvTimeoutError::Disconnected) => return None,
        Ok(never) => match never {},
    }
    let write = || {
        guard.stop()?;
        let mut bytes = Vec::new();
        guard.profile()?.write_pprof(&mut bytes)?;
        bytes.shrink_to_fit();
        Ok(bytes)
    };
    Some(write())
}

pub(crate) fn respond(bytes: Bytes, kind: &'static str, disposition: Option<&'static str>) -> Response<Body> {
    let length = bytes.len();
    let mut response = Response::new(Full::new(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(disposition) = disposition {
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_LENGTH, length.into());
    response
}

/// An answer that is a text.
pub(crate) struct Refusal {
    status: StatusCode,
    text: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    fn of_crowd(most: usize) -> Self {
        let text = format!(
            "onstack: {most} profiles are being taken over HTTP already: ask again when they are done, or raise \
             HandlerOptions::max_concurrent"
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, text)
    }

    fn of_threads(error: &io::Error) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, format!("onstack: no thread can be made for the profile: {error}"))
    }

    fn of(error: &onstack::Error) -> Self {
        let status = match error {
            onstack::Error::Sessions => StatusCode::SERVICE_UNAVAILABLE,
            onstack::Error::Unsupported => StatusCode::NOT_IMPLEMENTED,
            onstack::Error::Frequency | onstack::Error::Options(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, format!("onstack: {error}"))
    }

    pub(crate) fn respond(self) -> Response<Body> {
        let mut response = Response::new(Full::from(self.text + "\n"));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED => drop(headers.insert(ALLOW, HeaderValue::from_static("GET"))),
            // Whole seconds, after which a profile that runs now will be over.
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, (1 + seats::next_end().as_secs()).into());
            }
            _ => {}
        }
        response
    }
}
