// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the program works for: labels of requests, tasks and threads, in its samples.
//!
//! A [`Labels`] is built once. Samples carry it while a [future](FutureExt::with_labels) is polled, wherever that is, or while
//! a [closure](Labels::scope) runs. That costs a few nanoseconds a poll, and nothing has to profile for it.
//!
//! ```
//! use onstack::label::{FutureExt, Labels};
//!
//! async fn answer(request: u32) -> u32 {
//!     request + 1
//! }
//!
//! # fn spawn<F: std::future::Future<Output = u32> + Send>(_: F) {}
//! let labels = Labels::new([("http.route", "/cart"), ("tenant", "a")])?;
//! spawn(answer(41).with_labels(labels.clone())); // a task of any runtime
//! assert_eq!(labels.scope(|| 41 + 1), 42);
//! # Ok::<(), onstack::Error>(())
//! ```
//!
//! Inner labels add to outer ones, and hide those of the same key. Profiles have them as labels of pprof, in the order goroutine,
//! task, [span](replace_span), [thread](crate::thread_label()); of two with one key the first counts.
//!
//! # Keys
//! A key matches `[a-zA-Z_][a-zA-Z0-9_./-]*`, as `http.route`, and is not `thread` or `thread_id`. A value is any text without a
//! NUL. All labels of a set together take at most 4,096 bytes, and a byte more for each key and value; a sample has room for
//! [`label_bytes`](crate::Options::label_bytes).
//!
//! # Programs of several languages
//! Labels go to profilers of this crate. A profiler of another copy of the library, as a preloaded one, does not see them.

mod future;
mod set;
mod span;

pub use future::{FutureExt, WithLabels};
pub use set::Labels;
pub use span::replace_span;
