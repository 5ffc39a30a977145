// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

mod demangle;
mod error;
mod folded;
mod guard;
mod modules;
mod options;
mod profile;
#[cfg(feature = "prost-codec")]
pub mod protos;
#[cfg(not(feature = "prost-codec"))]
mod protos;
mod report;
mod sample;
mod session;
mod stacks;
mod stats;
mod symbolize;
mod top;

pub use error::{Error, Result};
pub use guard::{ProfilerGuard, ProfilerGuardBuilder};
#[cfg(feature = "flamegraph")]
pub use inferno::flamegraph;
pub use options::{Clock, Options, Restore};
pub use report::{Report, ReportBuilder};
pub use sample::{Sample, Truncation};
pub use session::Session;
pub use stats::Stats;
pub use top::{Top, TopEntry};
