// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples for a program that asks for them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::sample::{Kind, Period, Sample, Truncation, Unit};
use crate::session::Session;
use crate::stats::Stats;

/// A sample that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OwnedSample {
    /// See [`Sample::kind`].
    pub kind: Kind,
    /// See [`Sample::value`].
    pub value: u64,
    /// See [`Sample::unit`].
    pub unit: Unit,
    /// See [`Sample::weight`].
    pub weight: u32,
    /// See [`Sample::time`].
    pub time: Duration,
    /// See [`Sample::period`].
    pub period: Period,
    /// See [`Sample::thread_id`].
    pub thread_id: i32,
    /// See [`Sample::thread_name`].
    pub thread_name: String,
    /// See [`Sample::frames`].
    pub frames: Vec<u64>,
    /// See [`Sample::truncation`].
    pub truncation: Truncation,
}

impl From<&Sample<'_>> for OwnedSample {
    fn from(sample: &Sample<'_>) -> Self {
        Self {
            kind: sample.kind(),
            value: sample.value(),
            unit: sample.unit(),
            weight: sample.weight(),
            time: sample.time(),
            period: sample.period(),
            thread_id: sample.thread_id(),
            thread_name: String::from_utf8_lossy(sample.thread_name()).into_owned(),
            frames: sample.frames().to_vec(),
            truncation: sample.truncation(),
        }
    }
}

/// As many samples as are fetched at once: what a long pause leaves waits in the session's buffer, whose size is known.
const BATCH: u32 = 256;

/// A running profiler whose samples are fetched: an iterator over those that wait now. No thread is made.
///
/// `next` returns `None` when no sample waits; later ones come with a later call. Go through it every 20 ms while
/// the program works, every 50 while it rests: new threads and other owners of the signal are noticed by it, and samples that
/// find the buffer full meanwhile are counted in [`Stats::dropped_ring_full`]. After [`Samples::stop`] it gives what remained.
///
/// ```
/// let mut samples = onstack::Samples::start(onstack::Options::new().frequency(199))?;
/// // ... work ...
/// for sample in samples.by_ref() {
///     println!("{} {:#x}", sample.thread_name, sample.frames[0]);
/// }
/// samples.stop()?;
/// # Ok::<(), onstack::Error>(())
/// ```
pub struct Samples {
    session: Session,
    waiting: Arc<Mutex<VecDeque<OwnedSample>>>,
}

impl Samples {
    /// Starts sampling; [`Options::threads`] is turned off.
    ///
    /// # Errors
    /// Those of [`Session::start`].
    pub fn start(options: Options) -> Result<Self> {
        let waiting = Arc::new(Mutex::new(VecDeque::new()));
        let place = waiting.clone();
        let session = Session::start(options.threads(false), move |sample| {
            place.lock().unwrap_or_else(PoisonError::into_inner).push_back(sample.into());
        })?;
        Ok(Self { session, waiting })
    }

    /// Ends sampling; what was sampled before can still be fetched.
    ///
    /// # Errors
    /// Those of [`Session::stop`].
    pub fn stop(&self) -> Result<()> {
        self.session.stop()
    }

    /// The counters.
    ///
    /// # Errors
    /// Those of [`Session::stats`].
    pub fn stats(&self) -> Result<Stats> {
        self.session.stats()
    }

    fn oldest(&self) -> Option<OwnedSample> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Iterator for Samples {
    type Item = OwnedSample;

    fn next(&mut self) -> Option<OwnedSample> {
        if let Some(sample) = self.oldest() {
            return Some(sample);
        }
        match self.session.poll(BATCH) {
            Ok(_) | Err(Error::Stopped) => self.oldest(),
            // Asked from inside a sink: there is nothing to give now.
            Err(_) => None,
        }
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples").field("session", &self.session).finish_non_exhaustive()
    }
}
