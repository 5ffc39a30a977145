// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a guard's samples go: an aggregate that can be exchanged for an empty one at any moment, so that no sample
//! falls between a report and the next.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use onstack_sys as sys;

use crate::aggregate::{Aggregate, Kept};
use crate::error::Result;
use crate::{module_file, modules, process};

/// Samples from some moment on.
#[derive(Clone)]
pub(crate) struct Interval {
    pub(crate) aggregate: Arc<Aggregate>,
    pub(crate) start: SystemTime,
    started: Instant,
}

impl Interval {
    fn new(kept: Kept) -> Result<Self> {
        let aggregate = Arc::new(Aggregate::new(kept)?);
        Ok(Self { aggregate, start: SystemTime::now(), started: Instant::now() })
    }

    /// From its beginning to `end`, or to now.
    pub(crate) fn duration(&self, end: Option<Instant>) -> Duration {
        end.unwrap_or_else(Instant::now).saturating_duration_since(self.started)
    }
}

pub(crate) struct Collector {
    kept: Kept,
    /// Of this process, once it was asked for: see [`Collector::current`].
    current: AtomicPtr<Current>,
    blocked: Vec<Range<u64>>,
    blocked_ticks: AtomicU64,
}

/// What one process has.
struct Current {
    process: u64,
    /// Held by the sink while it counts, and for an exchange of pointers; never while names are looked up.
    interval: Mutex<Interval>,
}

impl Current {
    fn new(kept: Kept) -> Result<*mut Self> {
        let interval = Mutex::new(Interval::new(kept)?);
        Ok(Box::into_raw(Box::new(Self { process: process::number(), interval })))
    }
}

impl Collector {
    /// `blocklist`: parts of names of files; samples whose leaf lies in one of them are left out.
    pub(crate) fn new(kept: Kept, blocklist: &[String]) -> Result<Arc<Self>> {
        module_file::note();
        let blocked = if blocklist.is_empty() { Vec::new() } else { modules::code_of(blocklist) };
        let current = AtomicPtr::new(Current::new(kept)?);
        Ok(Arc::new(Self { kept, current, blocked, blocked_ticks: AtomicU64::new(0) }))
    }

    /// The sink and its data. The collector must outlive the session that gets them.
    pub(crate) fn sink(self: &Arc<Self>) -> (sys::onstack_sink, *mut c_void) {
        (Some(sink), Arc::as_ptr(self).cast_mut().cast())
    }

    /// In the child of a fork what the parent had is left where it is, since a thread that is not there may hold its lock,
    /// and the child begins anew.
    fn current(&self) -> Result<&Current> {
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: made by `Current::new`; one of this process is freed by drop alone, others never.
            let found = unsafe { &*current };
            if found.process == process::number() {
                return Ok(found);
            }
            let new = Current::new(self.kept)?;
            if self.current.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Interval>> {
        Ok(self.current()?.interval.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What there is; counting goes on in it.
    pub(crate) fn look(&self) -> Result<Interval> {
        Ok(self.lock()?.clone())
    }

    /// What there is; counting goes on in an empty one.
    pub(crate) fn take(&self) -> Result<Interval> {
        // Made before the lock is held: it reads the process's mappings.
        let empty = Interval::new(self.kept)?;
        Ok(std::mem::replace(&mut *self.lock()?, empty))
    }

    pub(crate) fn has_blocklist(&self) -> bool {
        !self.blocked.is_empty()
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
    let Ok(interval) = collector.lock() else { return 1 };
    // SAFETY: the core's sample, during its call.
    unsafe { interval.aggregate.count(sample) }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        // SAFETY: made by `Current::new`, and nobody else is left.
        if unsafe { (*current).process } == process::number() {
            // SAFETY: as above; the parent's is not freed, because the lock in it may be held.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}
