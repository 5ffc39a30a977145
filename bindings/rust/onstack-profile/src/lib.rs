// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod by_label;
mod debug_file;
mod demangle;
mod dwarf;
#[cfg(test)]
mod elf_maker;
mod folded;
mod language;
mod live;
mod merge;
pub mod message;
mod otlp;
mod plain;
mod profile;
mod pseudo_frames;
mod rename;
mod stacks;
mod storage;
mod summary;
mod symbolize;
mod top;
mod tree;
mod unpacked;
pub mod view;
mod wire;

pub use by_label::ByLabel;
pub use demangle::demangle;
#[cfg(feature = "flamegraph")]
pub use inferno::flamegraph;
pub use language::Language;
pub use live::{dump, dump_profile, Profiled};
pub use merge::Merge;
pub use onstack::{Error, Result};
pub use plain::{amount, Plain};
pub use profile::Profile;
pub use summary::{Loss, Summary, UnseenAllocator};
pub use top::{Top, TopEntry};
pub use tree::{Tree, TreeNode};
