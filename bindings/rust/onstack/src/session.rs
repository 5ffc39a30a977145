// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session: the core's handle with an owner, and a closure as its sink; or an iterator over its samples.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, mem, thread};

use onstack_sys as sys;

use crate::error::{check, Error, Result};
use crate::options::{Options, SysOptions, ThreadFilter};
use crate::sample::{Kind, Period, Sample, Truncation, Unit};
use crate::stats::{self, ModuleStats, Stats};

thread_local! {
    /// Set while this thread runs a sink of this crate. Sinks run on ordinary threads, never in the signal.
    static IN_SINK: Cell<bool> = const { Cell::new(false) };
}

/// A handle of the core; its owner ends it by [`Handle::free_with`].
pub(crate) struct Handle(NonNull<sys::onstack_session>, Option<Box<ThreadFilter>>);

// SAFETY: the core allows all of its session functions from any thread and takes its own locks.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// # Safety
    /// The sink in `options` stays callable with its data until this handle has been freed.
    pub(crate) unsafe fn start(options: SysOptions) -> Result<Self> {
        let mut session = ptr::null_mut();
        // SAFETY: the options are filled in, and what they point to lives during the call; the sink is the caller's.
        check(unsafe { sys::onstack_session_start(&options.raw, &mut session) })
            .map_err(|error| options.explain(error))?;
        Ok(Self(NonNull::new(session).expect("a start that succeeds gives a handle"), options.filter))
    }

    pub(crate) fn stop(&self) -> Result<()> {
        // SAFETY: the handle is live.
        check(unsafe { sys::onstack_session_stop(self.0.as_ptr()) }).map(drop)
    }

    pub(crate) fn poll(&self, max_samples: u32) -> Result<u32> {
        // SAFETY: the handle is live.
        check(unsafe { sys::onstack_session_poll(self.0.as_ptr(), max_samples) }).map(c_int::unsigned_abs)
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        // SAFETY: the handle is live.
        unsafe { Stats::read(self.0.as_ptr()) }
    }

    pub(crate) fn stats_lines(&self) -> Result<Vec<String>> {
        // SAFETY: the handle is live.
        unsafe { stats::lines(self.0.as_ptr()) }
    }

    pub(crate) fn memory_lines(&self) -> Result<Vec<String>> {
        // SAFETY: the handle is live.
        unsafe { stats::memory_lines(self.0.as_ptr()) }
    }

    pub(crate) fn modules(&self) -> Result<Vec<ModuleStats>> {
        // SAFETY: the handle is live.
        unsafe { ModuleStats::read(self.0.as_ptr()) }
    }

    /// Frees the session and hands `data`, which its sink uses, to the caller's drop only when that worked. Where it is
    /// refused (inside a sink) another thread does it, so that no session goes on for ever without an owner.
    pub(crate) fn free_with<T: Send + 'static>(self, data: T) {
        if IN_SINK.get() {
            let later = Later(self, data);
            // When no thread can be made the session and its data leak: they must not be freed under the sink.
            let later = mem::ManuallyDrop::new(later);
            let _ = thread::Builder::new().name("onstack-free".into()).spawn(move || {
                let Later(handle, data) = mem::ManuallyDrop::into_inner(later);
                handle.free_with(data);
            });
            return;
        }
        // SAFETY: the handle is live and given up here.
        let freed = unsafe { sys::onstack_session_free(self.0.as_ptr()) };
        if freed < 0 {
            mem::forget((data, self.1));
        }
    }
}

struct Later<T>(Handle, T);

/// Where the samples of a [`Session`] go.
///
/// It is called on a thread of the library, or inside [`Session::poll`], never in a signal handler and never twice at a
/// time. It may be slow and may allocate; samples that do not fit into the buffer meanwhile are counted. A panic ends
/// there: the sink is not called again, and further samples are counted in [`Stats::dropped_sink`].
///
/// Closures are sinks; [`Session::start`] takes them as they are.
pub trait Sink: Send {
    /// Takes a sample, which lives during this call; `false` refuses it, which is counted in [`Stats::dropped_sink`].
    fn sample(&mut self, sample: &Sample<'_>) -> bool;
}

/// A closure refuses nothing.
struct Closure<F>(F);

impl<F: FnMut(&Sample<'_>) + Send> Sink for Closure<F> {
    fn sample(&mut self, sample: &Sample<'_>) -> bool {
        (self.0)(sample);
        true
    }
}

type Callback = Box<dyn Sink>;

/// What the sink's data pointer leads to.
struct SinkState {
    /// Touched by the sink alone, which the core never runs twice at a time.
    callback: UnsafeCell<Callback>,
    panicked: AtomicBool,
}

// SAFETY: `callback` is Send and has one user at a time; the rest is atomic.
unsafe impl Sync for SinkState {}

unsafe extern "C" fn sink(data: *mut c_void, sample: *const sys::onstack_sample) -> c_int {
    // SAFETY: the data is the `SinkState` of the session, which outlives it.
    let state = unsafe { &*data.cast::<SinkState>() };
    // What a closure that panicked once holds may be half changed; it is not called again.
    if state.panicked.load(Ordering::Relaxed) {
        return 1;
    }
    IN_SINK.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the core runs one sink call of a session at a time.
        let callback = unsafe { &mut *state.callback.get() };
        // SAFETY: the sample lives during this call.
        callback.sample(&unsafe { Sample::new(&*sample) })
    }));
    IN_SINK.set(false);
    match result {
        Ok(taken) => c_int::from(!taken),
        Err(payload) => {
            state.panicked.store(true, Ordering::Relaxed);
            // Its drop might panic in turn.
            mem::forget(payload);
            1
        }
    }
}

/// A running profiler that hands every sample to a closure.
///
/// Several sessions run side by side, each with its own rate, unwinder and closure. Dropping a session stops it.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::sync::Arc;
///
/// let ticks = Arc::new(AtomicU64::new(0));
/// let seen = ticks.clone();
/// let session = onstack::Session::start(onstack::Options::new().frequency(199), move |sample| {
///     seen.fetch_add(sample.weight().into(), Ordering::Relaxed);
/// })?;
/// // ... work ...
/// session.stop()?;
/// assert_eq!(session.stats()?.recorded, ticks.load(Ordering::Relaxed));
/// # Ok::<(), onstack::Error>(())
/// ```
pub struct Session {
    // An option only so that drop can give it away.
    inner: Option<(Handle, Arc<SinkState>)>,
}

impl Session {
    /// Starts sampling.
    ///
    /// The closure runs on a thread of the library, or inside [`Session::poll`], never in a signal handler. It may be
    /// slow; samples that do not fit into the buffer meanwhile are counted. If it panics, the panic ends there, the
    /// closure is not called again, and further samples are counted in [`Stats::dropped_sink`].
    ///
    /// # Errors
    /// Every wrong option has its own [`Error`](crate::Error); nothing is left behind.
    pub fn start(options: Options, sink: impl FnMut(&Sample<'_>) + Send + 'static) -> Result<Self> {
        Self::start_boxed(&options, Box::new(Closure(sink)))
    }

    /// As [`Session::start`], with a sink of one's own type.
    ///
    /// # Errors
    /// Those of [`Session::start`].
    pub fn start_with_sink(options: Options, sink: impl Sink + 'static) -> Result<Self> {
        Self::start_boxed(&options, Box::new(sink))
    }

    fn start_boxed(options: &Options, callback: Callback) -> Result<Self> {
        // An Arc and not a Box: the core keeps a pointer to it while the owner moves.
        let state = Arc::new(SinkState { callback: UnsafeCell::new(callback), panicked: AtomicBool::new(false) });
        let data = Arc::as_ptr(&state).cast_mut().cast::<c_void>();
        let options = options.to_sys(Some(sink), data)?;
        // SAFETY: the state is dropped by `free_with` after the handle was freed.
        let handle = unsafe { Handle::start(options) }?;
        Ok(Self { inner: Some((handle, state)) })
    }

    fn handle(&self) -> &Handle {
        &self.inner.as_ref().expect("taken by drop alone").0
    }

    /// Ends sampling and hands the remaining samples to the closure, which is not called after that.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped) the second time and in the child of a fork,
    /// [`Error::Context`](crate::Error::Context) inside a sink.
    pub fn stop(&self) -> Result<()> {
        self.handle().stop()
    }

    /// Hands at most `max_samples` waiting samples (0: all) to the closure on this thread and returns how many there
    /// were. For sessions with [`Options::threads`] off.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped), and [`Error::Context`](crate::Error::Context) inside a sink.
    pub fn poll(&self, max_samples: u32) -> Result<u32> {
        self.handle().poll(max_samples)
    }

    /// The counters; they can be read after the stop too.
    ///
    /// # Errors
    /// Only those of a core that does not fit this crate.
    pub fn stats(&self) -> Result<Stats> {
        self.handle().stats()
    }

    /// How stacks were followed through each program and library, those that lost most first. Counts samples that the
    /// sink has had.
    ///
    /// # Errors
    /// [`Error::Context`](crate::Error::Context) inside a sink.
    pub fn modules(&self) -> Result<Vec<ModuleStats>> {
        self.handle().modules()
    }

    /// Whether the closure has panicked.
    pub fn sink_panicked(&self) -> bool {
        self.inner.as_ref().is_some_and(|(_, state)| state.panicked.load(Ordering::Relaxed))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some((handle, state)) = self.inner.take() {
            handle.free_with(state);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

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
