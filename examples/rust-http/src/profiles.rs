// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiles that the service gives of itself.

use http_body_util::Full;
use hyper::Request;
use onstack::{ProfilerGuard, ProfilerGuardBuilder};
use onstack_http::{Handler, HandlerOptions};
use onstack_profile::Profiled;

use crate::{text, Response};

/// Rates that share no factor with each other or with a clock of the program.
const CONTINUOUS_HERTZ: i32 = 19;

pub struct Profiles {
    handler: Handler,
    continuous: ProfilerGuard,
}

impl Profiles {
    pub fn start() -> Result<Self, onstack_http::Error> {
        let builder = service(ProfilerGuardBuilder::default());
        Ok(Self {
            handler: Handler::with(HandlerOptions::new().profile(service))?,
            continuous: builder.frequency(CONTINUOUS_HERTZ).build()?,
        })
    }

    /// Four may ask at once, and none disturbs the continuous one: each has a session of its own.
    pub async fn of_the_next<B>(&self, request: &Request<B>) -> Response {
        self.handler.answer(request).await
    }

    pub fn since_last(&self) -> Response {
        let mut body = Vec::new();
        let profile = self.continuous.take_profile();
        match profile.and_then(|profile| profile.write_pprof(&mut body)) {
            Ok(()) => Response::new(Full::from(body)),
            Err(error) => text(500, &format!("{error}\n")),
        }
    }
}

/// Threads come and go: told apart by number they would only make the profile larger.
fn service(builder: ProfilerGuardBuilder) -> ProfilerGuardBuilder {
    builder
        .thread_ids(false)
        .labels(&[("service", "rust-http")])
}
