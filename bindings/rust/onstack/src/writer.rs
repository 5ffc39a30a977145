// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the core hands to a writer, as bytes.

use std::ffi::{c_int, c_void};
use std::slice;

use onstack_sys as sys;

use crate::error::{check, Result};

/// The bytes that `call` writes.
///
/// # Safety
/// `call` gives both of its arguments to one function of the core and keeps neither.
pub(crate) unsafe fn written(call: impl FnOnce(sys::onstack_writer, *mut c_void) -> c_int) -> Result<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::new();
    check(call(Some(append), (&mut bytes as *mut Vec<u8>).cast()))?;
    Ok(bytes)
}

unsafe extern "C" fn append(data: *mut c_void, bytes: *const c_void, length: usize) -> c_int {
    if length == 0 {
        return 0;
    }
    // SAFETY: the vector of `written`, and as many bytes as the core says.
    let (vector, bytes) = unsafe { (&mut *data.cast::<Vec<u8>>(), slice::from_raw_parts(bytes.cast::<u8>(), length)) };
    if vector.try_reserve(length).is_err() {
        return 1;
    }
    vector.extend_from_slice(bytes);
    0
}
