// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Go calls in the mix `rust`: frames of Rust that call C, and that a panic unwinds.

use std::ffi::c_int;
use std::hint::black_box;
use std::panic;

extern "C" {
    fn matrix_load_native(microseconds: c_int);
}

#[inline(never)]
fn descend(left: u32, bottom: &dyn Fn() -> u64) -> u64 {
    if left == 0 {
        return bottom();
    }
    black_box(descend(left - 1, bottom).rotate_left(left))
}

fn spin() -> u64 {
    (0..20_000u64).fold(1, |x, i| black_box(x.wrapping_mul(6364136223846793005).wrapping_add(i)))
}

fn call_c() -> u64 {
    // SAFETY: takes a time, and may run on any thread.
    unsafe { matrix_load_native(100) };
    1
}

fn give_up() -> u64 {
    panic::resume_unwind(Box::new("as Rust code does now and then"))
}

/// Some 200 us in Rust, in C that Rust has called, and in Rust's unwinder.
#[no_mangle]
pub extern "C" fn matrix_load_rust() {
    let caught = panic::catch_unwind(|| descend(12, &spin) + descend(12, &call_c) + descend(12, &give_up));
    black_box(caught.is_err());
}
