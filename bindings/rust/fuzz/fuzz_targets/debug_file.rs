// SPDX-License-Identifier: MIT OR Apache-2.0
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(onstack_fuzz::debug_file(data)));
