// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]
//!
//! - Choose few fields: each set of labels is a stack of its own in a profile, and a series on some servers.
//! - Values are texts of at most 256 bytes; longer ones are cut and end with `...`.
//! - A value that is [recorded](https://docs.rs/tracing/latest/tracing/struct.Span.html#method.record) later counts from then on,
//!   and for children that begin later.
//! - Labels of tasks ([`onstack::label`]) come first, and hide a span's of the same key.
//! - Entering and leaving a span takes some fifty nanoseconds more.

mod layer;
mod values;

pub use layer::{Builder, LabelLayer};
