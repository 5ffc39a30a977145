// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles to a server. [`Pusher`] is for programs; the modules below are what it shares with the command `onstack push`.

pub mod backoff;
mod books;
pub mod client;
mod header;
mod options;
pub mod otlp;
pub mod pyroscope;
mod queue;
mod run;
pub mod target;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use onstack::ProfilerGuard;
use onstack_profile::{Profile, Profiled};

use crate::error::Error;
use books::Books;
use run::{Event, Run, Source, Times};

pub use books::PushStats;
pub use header::{basic, checked as headers};
pub use options::{PushEvent, PushOptions, PushOutcome, PushPart, PushProtocol};

/// Profiles the process without a pause and sends a profile each interval to a Pyroscope server, to another with its
/// ingest endpoint, or to an OpenTelemetry collector ([`PushProtocol::Otlp`]), for services that cannot be scraped.
///
/// ```no_run
/// use onstack_http::{PushOptions, Pusher};
///
/// let pusher = Pusher::start(PushOptions::new("http://pyroscope:4040", "shop").label("env", "staging"))?;
/// // ... serve ...
/// println!("{:?}", pusher.stop());
/// # Ok::<(), onstack_http::Error>(())
/// ```
///
/// Each tick is in exactly one profile. While the server is away profiles wait, [`PushOptions::max_waiting`] of them and no
/// more than [`PushOptions::max_waiting_bytes`]; then the oldest go. Connection errors, 408, 429, 5xx and a 422 of a busy
/// Pyroscope (of OpenTelemetry: 429, 502, 503, 504) are tried again, later each time and no sooner than `Retry-After` says;
/// what else is refused counts as failed. A request whose answer is lost is repeated, so that a server may get a profile
/// twice. Nothing is lost silently: see [`PushOptions::report`] and [`Pusher::stats`].
///
/// The profile is a session like others: it disturbs no guard, no handler and no second pusher. The work is done
/// by a thread `onstack-push` with blocking calls, and a thread `onstack-send` during each request. They need no runtime, and
/// end with the pusher. In the child of a fork there is no pusher.
pub struct Pusher {
    events: Sender<Event>,
    books: Arc<Mutex<Books>>,
    thread: Option<JoinHandle<()>>,
    process: u64,
}

impl Pusher {
    /// Begins to profile.
    ///
    /// # Errors
    /// [`Error::Option`] with the name of the option, [`Error::Profile`] when no session can be started, [`Error::Os`].
    /// Nothing is left behind.
    pub fn start(mut options: PushOptions) -> Result<Self, Error> {
        let (sender, report) = options.sender()?;
        let source = Guard(options.builder().build()?);
        Self::run(Times::of(&options), move |events| Run::new(&options, sender, report, Box::new(source), events))
    }

    fn run(times: Times, make: impl FnOnce(Sender<Event>) -> Run) -> Result<Self, Error> {
        let (events, received) = mpsc::channel();
        let run = make(events.clone());
        let books = run.books();
        let work = move || run.run(times, &received);
        let thread = thread::Builder::new().name("onstack-push".into()).spawn(work).map_err(Error::Os)?;
        Ok(Self { events, books, thread: Some(thread), process: onstack::process_number() })
    }

    /// The numbers so far.
    pub fn stats(&self) -> PushStats {
        books::lock(&self.books).stats
    }

    /// Ends profiling, sends the last profile and those that wait, as far as [`PushOptions::flush_timeout`] lets it, and
    /// returns the numbers. It blocks meanwhile, as a drop does: async programs call it where blocking is allowed.
    pub fn stop(mut self) -> PushStats {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // In the child of a fork the thread is not there; and a report may drop its own pusher.
        if self.process != onstack::process_number() {
            return;
        }
        let _ = self.events.send(Event::Stop); // one that a panic has ended hears nothing
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            log::error!(target: "onstack_http", "the pusher has ended by a panic: what was sampled since then is lost");
        }
    }
}

/// As [`Pusher::stop`].
impl Drop for Pusher {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

struct Guard(ProfilerGuard);

impl Source for Guard {
    fn take(&mut self) -> onstack::Result<Profile> {
        self.0.take_profile()
    }

    fn stop(&mut self) -> onstack::Result<()> {
        self.0.stop()
    }
}

/// For the tests that compare with Go's.
#[cfg(test)]
pub(crate) mod alike {
    pub(crate) use super::tests::common::{Ingest, Reply};

    pub(crate) fn pauses(options: &super::PushOptions) -> (std::time::Duration, std::time::Duration) {
        let times = super::Times::of(options);
        (times.least, times.most)
    }
}
