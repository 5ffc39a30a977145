// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod aggregate;
mod amount;
mod by_label;
mod collector;
#[cfg(any(feature = "criterion", feature = "criterion-0_6", feature = "criterion-0_7", feature = "criterion-0_8"))]
pub mod criterion;
mod debug_file;
mod demangle;
mod dump;
mod dwarf;
mod elf;
#[cfg(test)]
mod elf_maker;
mod error;
#[doc(hidden)]
pub mod file;
mod folded;
mod frames;
mod guard;
pub mod heap;
pub mod label;
mod labels;
mod language;
mod loader;
mod losses;
mod memory;
#[doc(hidden)]
pub mod merge;
mod message;
mod module_file;
mod modules;
mod names;
mod offline;
mod options;
mod otlp;
#[doc(hidden)]
pub mod plain;
#[doc(hidden)]
pub mod process;
mod profile;
#[cfg(any(feature = "prost-codec", feature = "protobuf-codec"))]
pub mod protos;
mod pseudo_frames;
mod pull;
mod rebuild;
mod regular_file;
mod rename;
mod report;
mod resolve;
mod sample;
mod session;
mod split;
mod stacks;
mod stats;
mod storage;
mod summary;
mod symbolize;
mod thread_label;
mod thread_span;
#[doc(hidden)]
pub mod times;
mod timing;
mod top;
mod tree;
mod unpacked;
mod unseen;
#[doc(hidden)]
pub mod view;
mod wire;
mod writer;

pub use by_label::ByLabel;
pub use dump::{dump, dump_profile};
pub use error::{Error, Result};
pub use frames::{Frame, Frames, Symbol, UnresolvedFrames};
pub use guard::{ProfilerGuard, ProfilerGuardBuilder};
#[cfg(feature = "flamegraph")]
pub use inferno::flamegraph;
pub use language::Language;
pub use losses::ModuleStats;
pub use options::{Clock, Fork, Options, Restore};
pub use profile::Profile;
pub use pull::{OwnedSample, Samples};
pub use report::{Report, ReportBuilder, UnresolvedReport};
pub use sample::{Kind, Period, Sample, Truncation, Unit};
pub use session::{Session, Sink};
pub use stats::Stats;
pub use summary::Summary;
pub use thread_label::{thread_label, ThreadLabel};
pub use thread_span::thread_spans;
pub use timing::ReportTiming;
pub use top::{Top, TopEntry};
pub use tree::{Tree, TreeNode};
pub use unseen::UnseenAllocator;

/// Frames in a sample unless [`Options::max_depth`] says otherwise: 1,024 with the feature `large-depth`, 512 with
/// `huge-depth`, otherwise 128.
pub const MAX_DEPTH: usize = if cfg!(feature = "large-depth") {
    1024
} else if cfg!(feature = "huge-depth") {
    512
} else {
    128
};

/// Bytes of a thread's name, the final NUL included.
pub const MAX_THREAD_NAME: usize = 16;
