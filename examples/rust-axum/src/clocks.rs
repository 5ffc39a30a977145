// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each route and each task has used of the CPU, by the clocks of the threads that worked for it: what a service without
//! a profiler could measure.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

/// By name.
#[derive(Clone, Default)]
pub struct CpuClocks(Arc<Mutex<BTreeMap<String, Clock>>>);

/// Of one name, in nanoseconds.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl CpuClocks {
    /// What has been used under each name so far.
    pub fn read(&self) -> BTreeMap<String, Duration> {
        let clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |clock: &Clock| Duration::from_nanos(clock.0.load(Ordering::Relaxed));
        clocks
            .iter()
            .map(|(name, clock)| (name.clone(), read(clock)))
            .collect()
    }

    pub fn of(&self, name: &str) -> Clock {
        let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match clocks.get(name) {
            Some(clock) => clock.clone(),
            None => clocks.entry(name.to_owned()).or_default().clone(),
        }
    }
}

impl Clock {
    /// The time of its polls counts.
    pub fn timed<F: Future>(&self, future: F) -> Timed<F> {
        Timed {
            future,
            clock: self.clone(),
        }
    }

    pub fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let begin = thread_cpu();
        let result = work();
        self.0.fetch_add(thread_cpu() - begin, Ordering::Relaxed);
        result
    }
}

pin_project! {
    pub struct Timed<F> {
        #[pin]
        future: F,
        clock: Clock,
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.clock.time(|| this.future.poll(context))
    }
}

/// Nanoseconds of CPU time that the calling thread has used.
fn thread_cpu() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place for the result is ours, and the clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
