// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape that users of pprof-rs know: a guard that profiles while it lives.

use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::aggregate::{Form, Kept};
use crate::collector::{Collector, Interval};
use crate::error::Result;
use crate::labels;
use crate::losses::ModuleStats;
use crate::options::{Clock, Fork, Options, Restore};
use crate::profile::Profile;
use crate::session::Handle;
use crate::stats::{Stats, COUNTERS};

/// Chooses what a [`ProfilerGuard`] does. What is not set has the default of [`Options`].
#[derive(Clone, Debug, Default)]
pub struct ProfilerGuardBuilder {
    options: Options,
    blocklist: Vec<String>,
    labels: Vec<(String, String)>,
    kept: Kept,
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
        /// See [`Options::label_bytes`].
        label_bytes: u32;
        /// See [`Options::heap_interval`].
        heap_interval: u32;
        /// See [`Options::heap_objects`].
        heap_objects: u32;
        /// See [`Options::interpreters`].
        interpreters: bool;
        /// See [`Options::fork`].
        fork: Fork;
        /// See [`Options::unwinder`].
        unwinder: &str;
    }

    /// See [`Options::thread_filter`].
    #[must_use]
    pub fn thread_filter(mut self, accepts: impl Fn(i32, &str) -> bool + Send + Sync + 'static) -> Self {
        self.options = self.options.thread_filter(accepts);
        self
    }

    /// Leaves samples out whose interrupted instruction lies in a file whose name contains one of these, as `libc`. Only
    /// files count that are loaded when the guard is built.
    ///
    /// Nothing needs it: every place can be sampled safely. What is left out is missing in the totals;
    /// [`ProfilerGuard::blocked_ticks`] says how much.
    #[must_use]
    pub fn blocklist<T: AsRef<str>>(mut self, blocklist: &[T]) -> Self {
        self.blocklist =
            blocklist.iter().map(|part| part.as_ref().to_owned()).filter(|part| !part.is_empty()).collect();
        self
    }

    /// Labels that every sample of the profile carries, as `("service.name", "checkout")`; [keys](crate::label#keys).
    #[must_use]
    pub fn labels<K: AsRef<str>, V: AsRef<str>>(mut self, labels: &[(K, V)]) -> Self {
        self.labels = labels.iter().map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_owned())).collect();
        self
    }

    /// Whether stacks carry the name of their thread; yes unless set.
    #[must_use]
    pub fn thread_names(mut self, yes: bool) -> Self {
        self.kept.names = Some(yes);
        self
    }

    /// Whether threads are told apart by their numbers; yes unless set. Without it and with names off a profile of many
    /// short threads stays small.
    #[must_use]
    pub fn thread_ids(mut self, yes: bool) -> Self {
        self.kept.ids = Some(yes);
        self
    }

    /// Whether the profile keeps when each sample was taken, in some four bytes each, 64 MiB at most; no unless set. Of CPU and
    /// real time. [`ProfilerGuard::profile`] has it, for `onstack view` and `onstack convert`; other readers pass it over.
    /// `onstack.timeline lost=` among [`Profile::comments`] says how many times found no room.
    #[must_use]
    pub fn timeline(mut self, yes: bool) -> Self {
        self.kept.times = yes;
        self
    }

    /// Starts profiling.
    ///
    /// # Errors
    /// Every wrong option has its own [`Error`](crate::Error); nothing is left behind.
    pub fn build(self) -> Result<ProfilerGuard<'static>> {
        self.labels.iter().try_for_each(|(key, value)| labels::check(key, value))?;
        let collector = Collector::new(self.kept, &self.blocklist)?;
        let (sink, data) = collector.sink();
        let options = self.options.to_sys(sink, data)?;
        // SAFETY: the collector is dropped by `free_with` after the handle was freed.
        let handle = unsafe { Handle::start(options) }?;
        Ok(ProfilerGuard {
            inner: Some((handle, collector)),
            frequency: self.options.frequency_or_default(),
            clock: self.options.chosen_clock(),
            labels: self.labels,
            stopped: OnceLock::new(),
            lifetime: PhantomData,
        })
    }
}

/// Profiles from its making to its drop, or to [`ProfilerGuard::stop`].
///
/// Several guards live side by side, each with its own rate and samples. After the last of them the signal has the
/// action that the first one found. A guard that is leaked profiles until the process ends, in bounded memory.
pub struct ProfilerGuard<'a> {
    // An option only so that drop can give it away.
    inner: Option<(Handle, Arc<Collector>)>,
    frequency: c_int,
    clock: Clock,
    labels: Vec<(String, String)>,
    stopped: OnceLock<Instant>,
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
    fn parts(&self) -> &(Handle, Arc<Collector>) {
        self.inner.as_ref().expect("taken by drop alone")
    }

    pub(crate) fn collector(&self) -> &Collector {
        &self.parts().1
    }

    pub(crate) fn frequency(&self) -> c_int {
        self.frequency
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn duration(&self, interval: &Interval) -> Duration {
        interval.duration(self.stopped.get().copied())
    }

    /// What has been sampled so far, in pprof's format; profiling goes on. Takes less memory than a report.
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn profile(&self) -> Result<Profile> {
        self.write(&self.look()?, true)
    }

    /// With [`Clock::Heap`]: as [`ProfilerGuard::profile`], but only what has been in use for so long counts as in use. What was
    /// allocated before a program was warm and grows here from one profile to the next is leaked.
    ///
    /// # Errors
    /// As [`ProfilerGuard::profile`].
    pub fn profile_in_use_for(&self, age: Duration) -> Result<Profile> {
        self.write_older(&self.look()?, true, age)
    }

    /// As [`ProfilerGuard::profile`], and profiling goes on with an empty one: what continuous profilers want. Every sample
    /// is in exactly one of the profiles that are taken.
    ///
    /// # Errors
    /// Only where memory runs out; the samples are lost then.
    pub fn take_profile(&self) -> Result<Profile> {
        self.write(&self.take()?, true)
    }

    /// Forgets what has been sampled so far.
    ///
    /// # Errors
    /// Only where memory runs out; nothing is forgotten then.
    pub fn clear(&self) -> Result<()> {
        self.take().map(drop)
    }

    /// Ticks that [`ProfilerGuardBuilder::blocklist`] left out.
    pub fn blocked_ticks(&self) -> u64 {
        self.collector().blocked_ticks()
    }

    /// What has been sampled until this call. A sample may have been in the buffer for some milliseconds.
    pub(crate) fn look(&self) -> Result<Interval> {
        self.flush();
        self.collector().look()
    }

    /// The same, and counting goes on in an empty interval.
    pub(crate) fn take(&self) -> Result<Interval> {
        self.flush();
        self.collector().take()
    }

    /// Where it is refused nothing waits: the session has stopped, or a sink of its own asks.
    fn flush(&self) {
        let _ = self.parts().0.poll(0);
    }

    pub(crate) fn write(&self, interval: &Interval, names: bool) -> Result<Profile> {
        self.write_older(interval, names, Duration::ZERO)
    }

    fn write_older(&self, interval: &Interval, names: bool, age: Duration) -> Result<Profile> {
        let form = Form { names, age, kind: self.clock.kind(), period: self.stats()?.period.amount };
        let bytes = interval.aggregate.write_pprof(interval.start, self.duration(interval), form)?;
        let mut profile = Profile::decode(&bytes)?;
        labels::add(&mut profile.message, &self.labels);
        // A report is worth more than its comments.
        let mut lines = self.parts().0.stats_lines().unwrap_or_default();
        if self.clock == Clock::Heap {
            lines.extend(self.parts().0.memory_lines().unwrap_or_default());
        }
        lines.iter().for_each(|line| profile.add_comment(line));
        if self.collector().has_blocklist() {
            // Of what was recorded: the profile has the rest.
            profile.add_comment(&format!("{COUNTERS} blocklisted={}", self.blocked_ticks()));
        }
        Ok(profile)
    }

    /// The counters; they can be read after the stop too.
    ///
    /// # Errors
    /// Only those of a core that does not fit this crate.
    pub fn stats(&self) -> Result<Stats> {
        self.parts().0.stats()
    }

    /// How stacks were followed through each program and library, those that lost most first: it tells which one to build
    /// in another way ([`ModuleStats::advice`]).
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn modules(&self) -> Result<Vec<ModuleStats>> {
        self.parts().0.modules()
    }

    /// Ends sampling. Samples and counters stay until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped) the second time and in the child of a fork,
    /// [`Error::Context`](crate::Error::Context) inside a sink.
    pub fn stop(&self) -> Result<()> {
        self.parts().0.stop()?;
        let _ = self.stopped.set(Instant::now());
        Ok(())
    }
}

impl Drop for ProfilerGuard<'_> {
    fn drop(&mut self) {
        if let Some((handle, collector)) = self.inner.take() {
            handle.free_with(collector);
        }
    }
}

impl fmt::Debug for ProfilerGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerGuard").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
