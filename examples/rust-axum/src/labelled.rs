// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and background tasks with their labels.

use std::future::Future;

use axum::extract::{MatchedPath, Request};
use onstack::label::{FutureExt, Labels};
use tokio::task::{spawn_blocking, JoinError};

use crate::clocks::{Clock, CpuClocks};

/// What some work is for, in samples and by the service's own clocks.
#[derive(Clone)]
pub struct Work {
    labels: Labels,
    clock: Clock,
}

impl Work {
    /// A request is labelled by its route, `/primes/{limit}`, not by its path: with a label of each path each request would
    /// be a stack of its own.
    pub fn request(request: &Request, clocks: &CpuClocks) -> Self {
        let route = request
            .extensions()
            .get::<MatchedPath>()
            .map_or("none", MatchedPath::as_str);
        Self::new("http.route", route, clocks)
    }

    pub fn task(name: &str, clocks: &CpuClocks) -> Self {
        Self::new("task", name, clocks)
    }

    fn new(key: &str, name: &str, clocks: &CpuClocks) -> Self {
        let labels = Labels::new([(key, name)]).expect("routes and tasks have short names");
        Self {
            labels,
            clock: clocks.of(name),
        }
    }

    /// Work that awaits, on whatever thread it is polled.
    pub fn run<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        self.clock.timed(work).with_labels(self.labels.clone())
    }

    /// Work that keeps a thread. What is spawned does not inherit labels: it is given them.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let Self { labels, clock } = self.clone();
        spawn_blocking(move || labels.scope(|| clock.time(work))).await
    }
}
