// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(test, feature = "handler", feature = "push"))]
mod alike;
mod error;
#[cfg(feature = "handler")]
mod handler;
#[cfg(feature = "handler")]
mod options;
#[cfg(any(feature = "handler", feature = "push"))]
mod profiling;
#[cfg(feature = "push")]
#[doc(hidden)]
pub mod push;
#[cfg(feature = "handler")]
mod query;
#[cfg(feature = "axum")]
mod router;
#[cfg(feature = "handler")]
mod seats;
#[cfg(feature = "hyper")]
mod service;
#[cfg(feature = "handler")]
mod threads;

pub use error::Error;
#[cfg(feature = "handler")]
pub use handler::{Answer, Body, Handler, PATHS};
#[cfg(feature = "handler")]
pub use options::HandlerOptions;
#[cfg(feature = "push")]
pub use push::{PushEvent, PushOptions, PushOutcome, PushProtocol, PushStats, Pusher};
#[cfg(feature = "handler")]
pub use threads::{Threads, THREADS_PATH};
