// SPDX-License-Identifier: MIT OR Apache-2.0
//! Futures that are polled, and dropped, under a set of labels.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::set::{Entered, Labels, Nested};

/// Labels for futures.
pub trait FutureExt: Sized {
    /// Samples carry these labels while the future is polled, and while it is dropped, on whatever thread that happens. Inner
    /// ones add to outer ones and hide those of the same key.
    ///
    /// Costs some eleven nanoseconds a poll (`bench/labels.sh`), and a future inside another one with labels allocates when it
    /// is polled first. What is spawned from inside is a task of its own, and has labels if it is given some.
    fn with_labels(self, labels: Labels) -> WithLabels<Self> {
        WithLabels { future: ManuallyDrop::new(self), labels, nested: None }
    }
}

impl<F: Future> FutureExt for F {}

pin_project! {
    /// A future with labels, from [`FutureExt::with_labels`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct WithLabels<F> {
        #[pin]
        future: ManuallyDrop<F>,
        labels: Labels,
        nested: Option<Nested>,
    }

    impl<F> PinnedDrop for WithLabels<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let _entered = Entered::new(this.labels, this.nested);
            // SAFETY: it stays where it was pinned, and is not used again.
            unsafe { ManuallyDrop::drop(this.future.get_unchecked_mut()) };
        }
    }
}

impl<F: Future> Future for WithLabels<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = Entered::new(this.labels, this.nested);
        // SAFETY: the wrapper is transparent: what is pinned in it is pinned.
        let future = unsafe { this.future.map_unchecked_mut(|future| &mut **future) };
        future.poll(context)
    }
}

impl<F: std::fmt::Debug> std::fmt::Debug for WithLabels<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithLabels")
            .field("future", &*self.future)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}
