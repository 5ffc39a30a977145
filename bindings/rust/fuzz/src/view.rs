// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page's data: the files of the command's `view`, without its options.

mod data;
mod encode;
mod times;

pub use data::encoded;
