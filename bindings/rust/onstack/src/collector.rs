// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a guard's samples go: an aggregate that can be exchanged for an empty one at any moment, so that no sample
//! falls between a report and the next.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use onstack_sys as sys;

use crate::aggregate::{Aggregate, Threads};
use crate::error::Result;
use crate::modules;

/// Samples from some moment on.
#[derive(Clone)]
pub(crate) struct Interval {
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) start: SystemTime,
    started: Instant,
}

impl Interval {
    fn new(threads: Threads) -> Result<Self> {
        let aggregate = Arc::new(Aggregate::new(threads)?);
        Ok(Self { aggregate, start: SystemTime::now(), started: Instant::now() })
    }

    /// From its beginning to `end`, or to now.
    pub(crate) fn duration(&self, end: Option<Instant>) -> Duration {
        end.unwrap_or_else(Instant::now).saturating_duration_since(self.started)
    }
}

pub(crate) struct Collector {
    threads: Threads,
    /// Held by the sink while it counts, and for an exchange of pointers; never while names are looked up.
    current: Mutex<Interval>,
    blocked: Vec<Range<u64>>,
    blocked_ticks: AtomicU64,
}

impl Collector {
    /// `blocklist`: parts of names of files; samples whose leaf lies in one of them are left out.
    pub(crate) fn new(threads: Threads, blocklist: &[String]) -> Result<Arc<Self>> {
        let blocked = if blocklist.is_empty() { Vec::new() } else { modules::code_of(blocklist) };
        let current = Mutex::new(Interval::new(threads)?);
        Ok(Arc::new(Self { threads, current, blocked, blocked_ticks: AtomicU64::new(0) }))
    }

    /// The sink and its data. The collector must outlive the session that gets them.
    pub(crate) fn sink(self: &Arc<Self>) -> (sys::onstack_sink, *mut c_void) {
        (Some(sink), Arc::as_ptr(self).cast_mut().cast())
    }

    fn lock(&self) -> MutexGuard<'_, Interval> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is; counting goes on in it.
    pub(crate) fn look(&self) -> Interval {
        self.lock().clone()
    }

    /// What there is; counting goes on in an empty one.
    pub(crate) fn take(&self) -> Result<Interval> {
        // Made before the lock is held: it reads the process's mappings.
        let empty = Interval::new(self.threads)?;
        Ok(std::mem::replace(&mut *self.lock(), empty))
    }

    pub(crate) fn blocked_ticks(&self) -> u64 {
        self.blocked_ticks.load(Ordering::Relaxed)
    }
}

unsafe extern "C" fn sink(data: *mut c_void, sample: *const sys::onstack_sample) -> c_int {
    // SAFETY: the data is the `Collector` of the session, which outlives it.
    let collector = unsafe { &*data.cast::<Collector>() };
    if !collector.blocked.is_empty() {
        // SAFETY: the core gives at least one frame, and all of it lives during this call.
        let (leaf, weight) = unsafe { (*(*sample).frames, (*sample).weight) };
        if collector.blocked.iter().any(|range| range.contains(&leaf)) {
            collector.blocked_ticks.fetch_add(weight.into(), Ordering::Relaxed);
            return 0;
        }
    }
    // SAFETY: the core's sample, during its call.
    unsafe { collector.lock().aggregate.count(sample) }
}
