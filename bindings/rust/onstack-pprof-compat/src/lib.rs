// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "criterion", feature = "criterion-0_6", feature = "criterion-0_7", feature = "criterion-0_8"))]
pub mod criterion;
mod frames;
mod guard;
#[cfg(any(feature = "prost-codec", feature = "protobuf-codec"))]
pub mod protos;
mod report;
mod resolve;

pub use frames::{Frame, Frames, ReportTiming, Symbol, UnresolvedFrames};
pub use guard::{ProfilerGuard, ProfilerGuardBuilder};
pub use onstack::{Error, Result};
#[cfg(feature = "flamegraph")]
pub use onstack_profile::flamegraph;
pub use report::{Report, ReportBuilder, UnresolvedReport};

/// Frames in a sample: 1,024 with the feature `large-depth`, 512 with `huge-depth`, otherwise 128.
pub const MAX_DEPTH: usize = if cfg!(feature = "large-depth") {
    1024
} else if cfg!(feature = "huge-depth") {
    512
} else {
    128
};

/// Bytes of a thread's name, the final NUL included.
pub const MAX_THREAD_NAME: usize = 16;
