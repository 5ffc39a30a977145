// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape that users of pprof-rs know: a guard that profiles while it lives.

use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::error::Result;
use crate::options::{Clock, Options, Restore};
use crate::profile::Profile;
use crate::report::ReportBuilder;
use crate::session::Handle;
use crate::stats::Stats;

/// Chooses what a [`ProfilerGuard`] does. What is not set has the default of [`Options`].
#[derive(Clone, Debug, Default)]
pub struct ProfilerGuardBuilder {
    options: Options,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.options = self.options.$name($name);
            self
        }
    )*};
}

impl ProfilerGuardBuilder {
    options! {
        /// See [`Options::frequency`].
        frequency: c_int;
        /// See [`Options::clock`].
        clock: Clock;
        /// See [`Options::on_stack`].
        on_stack: bool;
        /// See [`Options::restore`].
        restore: Restore;
        /// See [`Options::own_threads`].
        own_threads: bool;
        /// See [`Options::signal`].
        signal: c_int;
        /// See [`Options::max_depth`].
        max_depth: u32;
        /// See [`Options::buffer_bytes`].
        buffer_bytes: u32;
        /// See [`Options::unwinder`].
        unwinder: &str;
    }

    /// Starts profiling.
    ///
    /// # Errors
    /// Every wrong option has its own [`Error`](crate::Error); nothing is left behind.
    pub fn build(self) -> Result<ProfilerGuard<'static>> {
        let profile = Arc::new(Profile::new()?);
        let (sink, data) = profile.sink();
        let options = self.options.to_sys(sink, data)?;
        let (started_at, started) = (SystemTime::now(), Instant::now());
        // SAFETY: the profile is dropped by `free_with` after the handle was freed.
        let handle = unsafe { Handle::start(&options) }?;
        Ok(ProfilerGuard {
            inner: Some((handle, profile)),
            started_at,
            started,
            stopped_after: OnceLock::new(),
            lifetime: PhantomData,
        })
    }
}

/// Profiles from its making to its drop, or to [`ProfilerGuard::stop`].
///
/// Several guards live side by side, each with its own rate and samples. After the last of them the signal has the
/// action that the first one found.
pub struct ProfilerGuard<'a> {
    // An option only so that drop can give it away.
    inner: Option<(Handle, Arc<Profile>)>,
    started_at: SystemTime,
    started: Instant,
    stopped_after: OnceLock<Duration>,
    lifetime: PhantomData<&'a ()>,
}

impl ProfilerGuard<'static> {
    /// Profiles at that many ticks a second of CPU time.
    ///
    /// # Errors
    /// [`Error::Frequency`](crate::Error::Frequency) for 0 and above 10,000, and those of
    /// [`ProfilerGuardBuilder::build`].
    pub fn new(frequency: c_int) -> Result<Self> {
        ProfilerGuardBuilder::default().frequency(frequency).build()
    }
}

impl ProfilerGuard<'_> {
    fn parts(&self) -> &(Handle, Arc<Profile>) {
        self.inner.as_ref().expect("taken by drop alone")
    }

    /// What has been sampled so far; profiling goes on.
    pub fn report(&self) -> ReportBuilder<'_> {
        let duration = self.stopped_after.get().copied().unwrap_or_else(|| self.started.elapsed());
        ReportBuilder::new(&self.parts().1, self.started_at, duration)
    }

    /// The counters; they can be read after the stop too.
    ///
    /// # Errors
    /// Only those of a core that does not fit this crate.
    pub fn stats(&self) -> Result<Stats> {
        self.parts().0.stats()
    }

    /// Ends sampling. Samples and counters stay until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped) the second time and in the child of a fork,
    /// [`Error::Context`](crate::Error::Context) inside a sink.
    pub fn stop(&self) -> Result<()> {
        self.parts().0.stop()?;
        let _ = self.stopped_after.set(self.started.elapsed());
        Ok(())
    }
}

impl Drop for ProfilerGuard<'_> {
    fn drop(&mut self) {
        if let Some((handle, profile)) = self.inner.take() {
            handle.free_with(profile);
        }
    }
}

impl fmt::Debug for ProfilerGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerGuard").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
