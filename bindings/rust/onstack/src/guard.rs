// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guard: it profiles while it lives, and its samples add up to profiles in pprof's format.

use std::ffi::{c_int, c_void, CString};
use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, ptr, slice};

use onstack_sys as sys;

use crate::aggregate::{Aggregate, Form, Kept};
use crate::error::{Error, Result};
use crate::label::check_label;
use crate::options::{Clock, Fork, Options, Restore};
use crate::process;
use crate::session::Handle;
use crate::stats::{ModuleStats, Stats};

/// Of the labels of a guard, and of a sample's own.
const MOST_LABEL_BYTES: usize = sys::ONSTACK_MAX_LABEL_BYTES as usize;

/// Chooses what a [`ProfilerGuard`] does. What is not set has the default of [`Options`].
#[derive(Clone, Debug, Default)]
pub struct ProfilerGuardBuilder {
    options: Options,
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
    /// real time, for `onstack view` and `onstack convert`; other readers pass it over. The profile's comment `onstack.timeline
    /// lost=` says how many times found no room.
    #[must_use]
    pub fn timeline(mut self, yes: bool) -> Self {
        self.kept.times = yes;
        self
    }

    /// Starts profiling.
    ///
    /// # Errors
    /// Every wrong option has its own [`Error`]; nothing is left behind.
    pub fn build(self) -> Result<ProfilerGuard> {
        let labels = self.checked_labels()?;
        let collector = Collector::new(self.kept, labels)?;
        let (sink, data) = collector.sink();
        let options = self.options.to_sys(sink, data)?;
        // SAFETY: the collector is dropped by `free_with` after the handle was freed.
        let handle = unsafe { Handle::start(options) }?;
        Ok(ProfilerGuard {
            inner: Some((handle, collector)),
            clock: self.options.chosen_clock(),
            stopped: OnceLock::new(),
        })
    }

    /// As samples have them: keys and values, each with a NUL behind it.
    fn checked_labels(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (key, value) in &self.labels {
            check_label(key, value)?;
            [key, value].into_iter().for_each(|text| bytes.extend(text.bytes().chain([0])));
        }
        if bytes.len() > MOST_LABEL_BYTES {
            return Err(Error::Options(format!("labels: they take {} bytes, and 4,096 is the most", bytes.len())));
        }
        Ok(bytes)
    }
}

/// Profiles from its making to its drop, or to [`ProfilerGuard::stop`].
///
/// Several guards live side by side, each with its own rate and samples. After the last of them the signal has the
/// action that the first one found. A guard that is leaked profiles until the process ends, in bounded memory.
///
/// Its profiles are bytes in [pprof's format](https://github.com/google/pprof/blob/main/proto/profile.proto), not compressed,
/// with names from symbol tables, mangled as they are there. The crate `onstack-profile` demangles them, adds lines and inlined
/// functions, and shows profiles.
pub struct ProfilerGuard {
    // An option only so that drop can give it away.
    inner: Option<(Handle, Arc<Collector>)>,
    clock: Clock,
    stopped: OnceLock<Instant>,
}

impl ProfilerGuard {
    /// Profiles at that many ticks a second of CPU time.
    ///
    /// # Errors
    /// [`Error::Frequency`] for 0 and above 10,000, and those of [`ProfilerGuardBuilder::build`].
    pub fn new(frequency: c_int) -> Result<Self> {
        ProfilerGuardBuilder::default().frequency(frequency).build()
    }

    fn parts(&self) -> &(Handle, Arc<Collector>) {
        self.inner.as_ref().expect("taken by drop alone")
    }

    /// What has been sampled so far; profiling goes on.
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn pprof(&self) -> Result<Vec<u8>> {
        self.write(&self.look()?, true, Duration::ZERO)
    }

    /// The same as addresses, mappings and build ids, for a server that looks names up.
    ///
    /// # Errors
    /// As [`ProfilerGuard::pprof`].
    pub fn pprof_without_names(&self) -> Result<Vec<u8>> {
        self.write(&self.look()?, false, Duration::ZERO)
    }

    /// With [`Clock::Heap`]: as [`ProfilerGuard::pprof`], but only what has been in use for so long counts as in use. What was
    /// allocated before a program was warm and grows here from one profile to the next is leaked.
    ///
    /// # Errors
    /// As [`ProfilerGuard::pprof`].
    pub fn pprof_in_use_for(&self, age: Duration) -> Result<Vec<u8>> {
        self.write(&self.look()?, true, age)
    }

    /// As [`ProfilerGuard::pprof`], and profiling goes on with an empty one: what continuous profilers want. Every sample
    /// is in exactly one of the profiles that are taken.
    ///
    /// # Errors
    /// Only where memory runs out; the samples are lost then.
    pub fn take_pprof(&self) -> Result<Vec<u8>> {
        self.write(&self.take()?, true, Duration::ZERO)
    }

    /// Forgets what has been sampled so far.
    ///
    /// # Errors
    /// Only where memory runs out; nothing is forgotten then.
    pub fn clear(&self) -> Result<()> {
        self.take().map(drop)
    }

    /// What has been sampled until this call. A sample may have been in the buffer for some milliseconds.
    fn look(&self) -> Result<Interval> {
        self.flush();
        Ok(self.parts().1.lock()?.interval.clone())
    }

    /// The same, and counting goes on in an empty interval.
    fn take(&self) -> Result<Interval> {
        self.flush();
        self.parts().1.take()
    }

    /// Where it is refused nothing waits: the session has stopped, or a sink of its own asks.
    fn flush(&self) {
        let _ = self.parts().0.poll(0);
    }

    /// The duration ends before names are looked up, which takes a while.
    fn write(&self, interval: &Interval, names: bool, age: Duration) -> Result<Vec<u8>> {
        let end = self.stopped.get().copied().unwrap_or_else(Instant::now);
        let duration = end.saturating_duration_since(interval.started);
        let form = Form { names, age, kind: self.clock.kind(), period: self.stats()?.period.amount };
        interval.aggregate.write_pprof(interval.start, duration, form, &self.comments())
    }

    /// The counters, a line each. A profile is worth more than its comments: where they cannot be had it has none.
    fn comments(&self) -> CString {
        let mut lines = self.parts().0.stats_lines().unwrap_or_default();
        if self.clock == Clock::Heap {
            lines.extend(self.parts().0.memory_lines().unwrap_or_default());
        }
        CString::new(lines.join("\n")).unwrap_or_default()
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
    /// [`Error::Stopped`] the second time and in the child of a fork, [`Error::Context`] inside a sink.
    pub fn stop(&self) -> Result<()> {
        self.parts().0.stop()?;
        let _ = self.stopped.set(Instant::now());
        Ok(())
    }
}

impl Drop for ProfilerGuard {
    fn drop(&mut self) {
        if let Some((handle, collector)) = self.inner.take() {
            handle.free_with(collector);
        }
    }
}

impl fmt::Debug for ProfilerGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerGuard").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// Samples from some moment on.
#[derive(Clone)]
struct Interval {
    aggregate: Arc<Aggregate>,
    start: SystemTime,
    started: Instant,
}

impl Interval {
    fn new(kept: Kept) -> Result<Self> {
        let aggregate = Arc::new(Aggregate::new(kept)?);
        Ok(Self { aggregate, start: SystemTime::now(), started: Instant::now() })
    }
}

/// Where a guard's samples go: an aggregate that can be exchanged for an empty one at any moment, so that no sample falls
/// between a profile and the next.
struct Collector {
    kept: Kept,
    /// Of each sample, behind its own.
    labels: Vec<u8>,
    /// Of this process, once it was asked for: see [`Collector::current`].
    current: AtomicPtr<Current>,
}

/// What one process has.
struct Current {
    process: u64,
    /// Held by the sink while it counts, and for an exchange of pointers; never while names are looked up.
    counting: Mutex<Counting>,
}

struct Counting {
    interval: Interval,
    /// A sample's labels with those of the guard. It has room for all: the sink allocates nothing.
    labels: Vec<u8>,
}

impl Collector {
    fn new(kept: Kept, labels: Vec<u8>) -> Result<Arc<Self>> {
        let collector = Self { kept, labels, current: AtomicPtr::new(ptr::null_mut()) };
        collector.current.store(collector.begin()?, Ordering::Release);
        Ok(Arc::new(collector))
    }

    fn begin(&self) -> Result<*mut Current> {
        let room = if self.labels.is_empty() { 0 } else { MOST_LABEL_BYTES + self.labels.len() };
        let counting = Counting { interval: Interval::new(self.kept)?, labels: Vec::with_capacity(room) };
        Ok(Box::into_raw(Box::new(Current { process: process::number(), counting: Mutex::new(counting) })))
    }

    /// The sink and its data. The collector must outlive the session that gets them.
    fn sink(self: &Arc<Self>) -> (sys::onstack_sink, *mut c_void) {
        (Some(sink), Arc::as_ptr(self).cast_mut().cast())
    }

    /// In the child of a fork what the parent had is left where it is, since a thread that is not there may hold its lock,
    /// and the child begins anew.
    fn current(&self) -> Result<&Current> {
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: made by `begin`; one of this process is freed by drop alone, others never.
            let found = unsafe { &*current };
            if found.process == process::number() {
                return Ok(found);
            }
            let new = self.begin()?;
            if self.current.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Counting>> {
        Ok(self.current()?.counting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What there is; counting goes on in an empty one.
    fn take(&self) -> Result<Interval> {
        // Made before the lock is held: it reads the process's mappings.
        let empty = Interval::new(self.kept)?;
        Ok(std::mem::replace(&mut self.lock()?.interval, empty))
    }
}

unsafe extern "C" fn sink(data: *mut c_void, sample: *const sys::onstack_sample) -> c_int {
    // SAFETY: the data is the `Collector` of the session, which outlives it.
    let collector = unsafe { &*data.cast::<Collector>() };
    let Ok(mut counting) = collector.lock() else { return 1 };
    if collector.labels.is_empty() {
        // SAFETY: the core's sample, during its call.
        return unsafe { counting.interval.aggregate.count(sample) };
    }
    let Counting { interval, labels } = &mut *counting;
    // SAFETY: as above. A core that is newer has members behind those that are copied; the size says so.
    let mut labelled = unsafe { ptr::read(sample) };
    labelled.size = size_of::<sys::onstack_sample>() as u32;
    labels.clear();
    if labelled.label_bytes > 0 {
        // SAFETY: the core says how many bytes there are, and they live during its call.
        labels
            .extend_from_slice(unsafe { slice::from_raw_parts(labelled.labels.cast(), labelled.label_bytes as usize) });
    }
    // Of two labels with one key the first counts: a sample's own.
    labels.extend_from_slice(&collector.labels);
    (labelled.labels, labelled.label_bytes) = (labels.as_ptr().cast(), labels.len() as u32);
    // SAFETY: the sample and what it points to live during the call.
    unsafe { interval.aggregate.count(&labelled) }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        // SAFETY: made by `begin`, and nobody else is left.
        if !current.is_null() && unsafe { (*current).process } == process::number() {
            // SAFETY: as above; the parent's is not freed, because the lock in it may be held.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}
