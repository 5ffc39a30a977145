// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw declarations of the onstack core, as the headers in `core/include/onstack` have them. What each function expects, and the context
//! from which it may be called, is said there and repeated on each item.
#![no_std]
#![allow(non_camel_case_types)]
// The header documents constants by trailing comments, which the generator does not carry over.
#![allow(missing_docs)]

// As the generator writes it: CI compares the bytes.
#[rustfmt::skip]
mod bindings;

pub use bindings::*;

extern "C" {
    /// Registers the providers of frames for CPython and PHP (`onstack/interpreters.h`). Again: changes nothing.
    pub fn onstack_interpreters_register() -> core::ffi::c_int;
}
