// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod aggregate;
mod error;
mod guard;
pub mod heap;
pub mod label;
mod options;
mod process;
mod sample;
mod session;
mod stats;

pub use aggregate::{dump, dump_pprof, pprof_of_addresses, Named};
pub use error::{Error, Result};
pub use guard::{ProfilerGuard, ProfilerGuardBuilder};
pub use label::{thread_label, thread_spans, ThreadLabel};
pub use options::{Clock, Fork, Options, Restore};
pub use process::number as process_number;
pub use sample::{Kind, Period, Sample, Truncation, Unit};
pub use session::{OwnedSample, Samples, Session, Sink};
pub use stats::{advice, ModuleStats, Stats};

/// Frames in a sample unless [`Options::max_depth`] says otherwise.
pub const MAX_DEPTH: u32 = 128;
