// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiles that the service gives of itself.

use std::thread;
use std::time::Duration;

use onstack::{Error, Profile, ProfilerGuard, ProfilerGuardBuilder};

use crate::http::{Request, Response};

/// Rates that share no factor with each other or with a clock of the program.
const CONTINUOUS_HERTZ: i32 = 19;

pub struct Profiles {
    continuous: ProfilerGuard<'static>,
}

impl Profiles {
    pub fn start() -> onstack::Result<Self> {
        Ok(Self {
            continuous: builder(CONTINUOUS_HERTZ).build()?,
        })
    }

    /// Two people may ask at once, and neither disturbs the continuous one: each has a guard of its own.
    pub fn of_the_next(&self, request: &Request) -> Response {
        let (Some(seconds), Some(hertz)) = (
            request.number("seconds", 10, 1..=300),
            request.number("hz", 99, 1..=10_000),
        ) else {
            return Response::text(400, "seconds is 1 to 300, hz 1 to 10000\n");
        };
        let profile = builder(hertz as i32).build().and_then(|guard| {
            thread::sleep(Duration::from_secs(seconds.into()));
            guard.stop()?;
            guard.profile()
        });
        respond(profile)
    }

    pub fn since_last(&self) -> Response {
        respond(self.continuous.take_profile())
    }
}

/// Threads serve one request and end: told apart by number they would only make the profile larger.
fn builder(hertz: i32) -> ProfilerGuardBuilder {
    ProfilerGuardBuilder::default()
        .frequency(hertz)
        .thread_ids(false)
        .labels(&[("service", "rust-http")])
}

fn respond(profile: onstack::Result<Profile>) -> Response {
    let mut body = Vec::new();
    match profile.and_then(|profile| profile.write_pprof(&mut body)) {
        Ok(()) => Response::profile(body),
        Err(Error::Sessions) => {
            Response::text(503, "eight profiles are being taken; ask again later\n")
        }
        Err(error) => Response::text(500, &format!("{error}\n")),
    }
}
