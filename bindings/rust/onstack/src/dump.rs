// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where every thread is now.

use std::ffi::CString;
use std::mem::size_of;
use std::time::{Duration, SystemTime};

use onstack_sys as sys;

use crate::aggregate::{Aggregate, Form, Kept};
use crate::error::Result;
use crate::options::register_interpreters;
use crate::symbolize::Symbolizer;
use crate::writer::written;
use crate::Profile;

/// Where every thread of the process is now, as text, for programs that hang: stacks with inlined functions and lines, the
/// thread's state, the system call that it waits in, what it waits on, and the thread that has the lock. Threads with the same
/// stack stand together.
///
/// Nobody is stopped: who waits is looked at from outside, as by [`Clock::Wall`](crate::Clock::Wall), and who runs gets one
/// tick. It takes 30 ms, 0.3 s at most, and what names take. A thread that no stack was found for has a line that says so.
///
/// ```
/// # fn main() -> onstack::Result<()> {
/// # if matches!(onstack::dump(), Err(onstack::Error::Clock)) { return Ok(()) } // an emulator
/// eprintln!("{}", onstack::dump()?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of a start with [`Clock::Wall`](crate::Clock::Wall): [`Error::Sessions`](crate::Error::Sessions) for one.
pub fn dump() -> Result<String> {
    register_interpreters()?;
    let mut symbolizer = Symbolizer::new();
    // SAFETY: all fields are integers and pointers that may be zero or null.
    let mut options: sys::onstack_write_options = unsafe { std::mem::zeroed() };
    options.size = size_of::<sys::onstack_write_options>() as u32;
    (options.symbolizer, options.symbolizer_data) = symbolizer.callback();
    // SAFETY: options and symbolizer live during the call, and each callback fits its data.
    let text = unsafe { written(|writer, data| sys::onstack_dump(&options, writer, data)) }?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The same as a profile: one sample a thread, with the labels `state`, `wait`, `on` and `holder`. A comment
/// `onstack.dump without_stack=N` says how many threads are missing in it.
///
/// # Errors
/// As [`dump`].
pub fn dump_profile() -> Result<Profile> {
    register_interpreters()?;
    let threads = Aggregate::new(Kept::default())?;
    let missing = threads.take_dump()?;
    let comments = CString::new(format!("onstack.dump without_stack={missing}")).expect("a number has no NUL");
    let form = Form { names: true, age: Duration::ZERO, kind: sys::ONSTACK_KIND_DUMP, period: 0 };
    Profile::read(&threads.write_pprof_with(SystemTime::now(), Duration::ZERO, form, Some(&comments))?[..])
}
