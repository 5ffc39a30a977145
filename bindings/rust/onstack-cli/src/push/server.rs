// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server, and when it is tried again.

use std::path::Path;
use std::thread;
use std::time::Duration;

use onstack_http::push;
use onstack_http::push::backoff::Backoff;
use onstack_http::push::client::{self, Client, Kind};
use onstack_http::push::target::{Parcel, Target};

use super::credentials;
use crate::failure::Failure;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A server that asks for more than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(300);

pub struct Server {
    client: Client,
    pub retries: u32,
    pub quiet: bool,
}

impl Server {
    pub fn new(target: Box<dyn Target>, timeout: Duration) -> Result<Self, Failure> {
        let headers =
            push::headers(&credentials::of_environment()?, target.headers()).map_err(Failure::of_arguments)?;
        let client = Client::new(target, headers, timeout);
        let client = client.map_err(|error| Failure::new(Path::new("https"), error))?;
        Ok(Self { client, retries: 0, quiet: false })
    }

    pub fn target(&self) -> &dyn Target {
        self.client.target()
    }

    pub fn send(&self, parcel: &Parcel) -> Result<(), Failure> {
        let endpoint = self.target().endpoint();
        let failure = |what: String| Failure::new(Path::new(endpoint), what);
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut tried = 0;
        loop {
            let Err(failed) = self.client.attempt(parcel) else { return Ok(()) };
            let (what, asked) = passing(failed).map_err(failure)?;
            if tried == self.retries {
                return Err(failure(format!("{what}; gave up after {} tries", tried + 1)));
            }
            if asked > PATIENCE {
                return Err(failure(format!("{what}; it asks to wait {} s: send it again then", asked.as_secs())));
            }
            let wait = backoff.next(asked);
            tried += 1;
            if !self.quiet {
                let seconds = wait.as_secs_f64();
                eprintln!("onstack: {endpoint}: {what}; retry {tried} of {} in {seconds:.1} s", self.retries);
            }
            thread::sleep(wait);
        }
    }
}

/// What went wrong and how long the server wants not to be asked; or else why another try will not help.
fn passing(failure: client::Failure) -> Result<(String, Duration), String> {
    let what = failure.text;
    match failure.kind {
        Kind::Passing(asked) => Ok((what, asked)),
        Kind::Unauthorized => Err(format!("{what}; `onstack push --help` names the variables for credentials")),
        Kind::Elsewhere(place) => Err(format!("{what}; it points to {place}, which is not followed: name it as --url")),
        Kind::TooLarge => Err(format!("{what}; take the profile over a shorter time")),
        Kind::Untrusted | Kind::Final => Err(what),
    }
}
