// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of the process requests may take.

use std::time::Duration;

use onstack::{Clock, ProfilerGuardBuilder};

use crate::error::Error;
use crate::profiling::Profiling;

/// Samples a second, unless a request or the program says otherwise.
pub(crate) const RATE: i32 = 99;
/// That of [`Clock::Wall`].
const WALL_RATE: i32 = 20;

// What the options may say at most: an hour keeps a mistyped request from profiling for ever, the others are the core's.
const MOST_DURATION: Duration = Duration::from_secs(3600);
const MOST_RATE: i32 = 10_000;
const MOST_CONCURRENT: usize = 8;

/// How much of the process requests may take. What is not set has the default that stands with it.
#[derive(Clone, Debug)]
pub struct HandlerOptions {
    pub(crate) max_duration: Duration,
    pub(crate) max_rate: i32,
    pub(crate) max_concurrent: usize,
    profile: Profiling,
}

/// Scrapers ask for a minute at most, and the kernel's tick makes few samples more of a higher rate.
impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            max_duration: Duration::from_secs(300),
            max_rate: 1000,
            max_concurrent: 4,
            profile: Profiling::default(),
        }
    }
}

impl HandlerOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest profile that a request may ask for, up to an hour; 5 minutes unless set.
    #[must_use]
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.max_duration = duration;
        self
    }

    /// The highest rate that a request may ask for, up to 10,000 Hz; 1,000 Hz unless set. What
    /// [`HandlerOptions::profile`] says is not bounded.
    #[must_use]
    pub fn max_rate(mut self, hertz: i32) -> Self {
        self.max_rate = hertz;
        self
    }

    /// How many profiles are taken and answered at once, up to 8, by all handlers of the process together; 4 unless set.
    /// What it leaves of the process's eight sessions is for its own guards and pushers.
    #[must_use]
    pub fn max_concurrent(mut self, profiles: usize) -> Self {
        self.max_concurrent = profiles;
        self
    }

    /// How to profile, where the request does not say otherwise: `.profile(|builder| builder.frequency(49))`.
    #[must_use]
    pub fn profile(
        mut self,
        change: impl Fn(ProfilerGuardBuilder) -> ProfilerGuardBuilder + Send + Sync + 'static,
    ) -> Self {
        self.profile = Profiling::by(change);
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |name, text| Err(Error::Option { name, text });
        if self.max_duration.is_zero() || self.max_duration > MOST_DURATION {
            let text = format!("{:?}: give more than 0 and up to {MOST_DURATION:?}", self.max_duration);
            return wrong("HandlerOptions::max_duration", text);
        }
        if !(1..=MOST_RATE).contains(&self.max_rate) {
            let text = format!("{}: give a number from 1 to {MOST_RATE}", self.max_rate);
            return wrong("HandlerOptions::max_rate", text);
        }
        if !(1..=MOST_CONCURRENT).contains(&self.max_concurrent) {
            let text = format!("{}: give a number from 1 to {MOST_CONCURRENT}", self.max_concurrent);
            return wrong("HandlerOptions::max_concurrent", text);
        }
        Ok(())
    }

    /// For a request that says nothing, or this clock. The clock's own rate is left alone if it may be.
    pub(crate) fn builder(&self, clock: Option<Clock>) -> ProfilerGuardBuilder {
        let rate = if clock == Some(Clock::Wall) { WALL_RATE } else { RATE };
        let mut builder = ProfilerGuardBuilder::default();
        if rate > self.max_rate {
            builder = builder.frequency(self.max_rate);
        }
        self.profile.of(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_wrong_are_named() {
        let options = HandlerOptions::new;
        for (options, text) in [
            (
                options().max_duration(Duration::ZERO),
                "HandlerOptions::max_duration: 0ns: give more than 0 and up to 3600s",
            ),
            (options().max_duration(Duration::from_secs(3601)), "HandlerOptions::max_duration: 3601s"),
            (options().max_rate(0), "HandlerOptions::max_rate: 0: give a number from 1 to 10000"),
            (options().max_rate(10_001), "HandlerOptions::max_rate: 10001"),
            (options().max_concurrent(0), "HandlerOptions::max_concurrent: 0: give a number from 1 to 8"),
            (options().max_concurrent(9), "HandlerOptions::max_concurrent: 9"),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
        let most = options().max_duration(MOST_DURATION).max_rate(MOST_RATE).max_concurrent(MOST_CONCURRENT);
        most.check().unwrap();
    }
}
