// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core's profile: a sink that adds up stacks, with an owner. And where every thread is now.

use std::ffi::{c_int, c_void, CStr, CString};
use std::mem::{forget, size_of};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::slice;
use std::time::{Duration, SystemTime};

use onstack_sys as sys;

use crate::error::{check, written, Result};
use crate::options::register_interpreters;
use crate::options::switch;

/// What a profile keeps of samples besides their stacks; nothing: as the core does it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) names: Option<bool>,
    pub(crate) ids: Option<bool>,
    /// When they were taken.
    pub(crate) times: bool,
}

/// How a profile is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// With names, or with addresses alone.
    pub(crate) names: bool,
    /// Allocations count as in use once they have been for so long.
    pub(crate) age: Duration,
    /// `ONSTACK_KIND_*` of its samples, and their period in nanoseconds or bytes: a profile without samples has both, too.
    pub(crate) kind: sys::onstack_kind,
    pub(crate) period: u64,
}

pub(crate) struct Aggregate(NonNull<sys::onstack_profile>);

// SAFETY: the core allows its profile functions from any thread.
unsafe impl Send for Aggregate {}
// SAFETY: as above.
unsafe impl Sync for Aggregate {}

impl Aggregate {
    pub(crate) fn new(kept: Kept) -> Result<Self> {
        // SAFETY: all fields are integers that may be zero.
        let mut options: sys::onstack_profile_options = unsafe { std::mem::zeroed() };
        options.size = size_of::<sys::onstack_profile_options>() as u32;
        options.thread_names = switch(kept.names);
        options.thread_ids = switch(kept.ids);
        options.timeline_bytes = if kept.times { sys::ONSTACK_TIMELINE_BYTES } else { 0 };
        let mut profile = ptr::null_mut();
        // SAFETY: the options are filled in; the result has a place.
        check(unsafe { sys::onstack_profile_new(&options, &mut profile) })?;
        Ok(Self(NonNull::new(profile).expect("a call that succeeds gives a profile")))
    }

    /// Counts a sample; the core's result.
    ///
    /// # Safety
    /// `sample` is what the core gave to a sink, during that call.
    pub(crate) unsafe fn count(&self, sample: *const sys::onstack_sample) -> c_int {
        // SAFETY: the profile is live; the sample is the caller's promise.
        unsafe { sys::onstack_profile_sink(self.0.as_ptr().cast(), sample) }
    }

    /// Counts where each thread is now; the number of threads that no stack was found for.
    pub(crate) fn take_dump(&self) -> Result<c_int> {
        register_interpreters()?;
        // SAFETY: the profile is live.
        check(unsafe { sys::onstack_dump_take(self.0.as_ptr()) })
    }

    /// What has been counted, as an uncompressed pprof message. Each line of `comments` becomes a comment.
    pub(crate) fn write_pprof(
        &self,
        start: SystemTime,
        duration: Duration,
        form: Form,
        comments: &CStr,
    ) -> Result<Vec<u8>> {
        let mut options = write_options();
        options.symbolize = switch(Some(form.names));
        options.start_time_unix_ns = nanoseconds(start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        options.duration_ns = nanoseconds(duration);
        options.heap_age_ns = u64::try_from(form.age.as_nanos()).unwrap_or(u64::MAX);
        options.kind = form.kind;
        options.period = form.period;
        options.comments = comments.as_ptr();
        let profile = self.0.as_ptr();
        // SAFETY: profile and comments live during the call, and the writer fits its data.
        unsafe { written(|writer, data| sys::onstack_profile_write_pprof(profile, &options, writer, data)) }
    }
}

impl Drop for Aggregate {
    fn drop(&mut self) {
        // SAFETY: sinks count into it only while somebody owns it.
        unsafe { sys::onstack_profile_free(self.0.as_ptr()) };
    }
}

fn write_options() -> sys::onstack_write_options {
    // SAFETY: all fields are integers and pointers that may be zero or null.
    let mut options: sys::onstack_write_options = unsafe { std::mem::zeroed() };
    options.size = size_of::<sys::onstack_write_options>() as u32;
    options
}

/// A profile of one sample with this stack, leaf first: places of this process with their names and mappings, in pprof's format,
/// not compressed. The addresses are those of [`ProfilerGuard::pprof_without_names`](crate::ProfilerGuard::pprof_without_names):
/// of a call they lie inside it.
///
/// # Errors
/// Only where memory runs out.
pub fn pprof_of_addresses(addresses: &[u64]) -> Result<Vec<u8>> {
    // Return addresses, as samples have them, lie behind the call.
    let frames: Vec<u64> = addresses.iter().enumerate().map(|(at, &address)| address + u64::from(at > 0)).collect();
    let aggregate = Aggregate::new(Kept::default())?;
    if !frames.is_empty() {
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut sample: sys::onstack_sample = unsafe { std::mem::zeroed() };
        sample.size = size_of::<sys::onstack_sample>() as u32;
        (sample.kind, sample.unit) = (sys::ONSTACK_KIND_CPU, sys::ONSTACK_UNIT_NANOSECONDS);
        (sample.weight, sample.period, sample.value) = (1, 1, 1);
        sample.thread_name = c"".as_ptr();
        (sample.frames, sample.frame_count) = (frames.as_ptr(), frames.len() as u32);
        // SAFETY: the sample and what it points to live during the call.
        check(unsafe { aggregate.count(&sample) })?;
    }
    let form = Form { names: true, age: Duration::ZERO, kind: sys::ONSTACK_KIND_CPU, period: 1 };
    aggregate.write_pprof(SystemTime::now(), Duration::ZERO, form, c"")
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// For people; empty: the name of the symbol.
    pub name: String,
    /// The symbol's.
    pub system_name: String,
    /// Its source file; empty where it is not known.
    pub file: String,
    /// The line; 0 where it is not known.
    pub line: i64,
}

/// Where every thread of the process is now, as text, for programs that hang: stacks, the thread's state, the system call that
/// it waits in, what it waits on, and the thread that has the lock. Threads with the same stack stand together.
///
/// Nobody is stopped: who waits is looked at from outside, as by [`Clock::Wall`](crate::Clock::Wall), and who runs gets one
/// tick. It takes 30 ms, 0.3 s at most, and what names take. A thread that no stack was found for has a line that says so.
///
/// `names` is asked for addresses: of each that it knows it gives the functions, the innermost inlined one first.
/// `onstack_profile::dump` asks debug information. The others have the names of symbol tables.
///
/// ```
/// # fn main() -> onstack::Result<()> {
/// # if matches!(onstack::dump(|_| Vec::new()), Err(onstack::Error::Clock)) { return Ok(()) } // an emulator
/// eprintln!("{}", onstack::dump(|_| Vec::new())?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of a start with [`Clock::Wall`](crate::Clock::Wall): [`Error::Sessions`](crate::Error::Sessions) for one.
pub fn dump(names: impl FnMut(&[u64]) -> Vec<Vec<Named>>) -> Result<String> {
    register_interpreters()?;
    let mut names: Names<'_> = Box::new(names);
    let mut options = write_options();
    options.symbolizer = Some(symbolize);
    options.symbolizer_data = ptr::from_mut(&mut names).cast();
    // SAFETY: options and names live during the call, and each callback fits its data.
    let text = unsafe { written(|writer, data| sys::onstack_dump(&options, writer, data)) }?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

type Names<'a> = Box<dyn FnMut(&[u64]) -> Vec<Vec<Named>> + 'a>;

unsafe extern "C" fn symbolize(
    data: *mut c_void,
    addresses: *const u64,
    count: usize,
    table: *mut sys::onstack_symbol_table,
) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: the data is the one of `dump`; the core says how many addresses there are.
    let (names, addresses) = unsafe { (&mut *data.cast::<Names<'_>>(), slice::from_raw_parts(addresses, count)) };
    // A panic must not go through the core; there are names of symbol tables.
    let found = catch_unwind(AssertUnwindSafe(|| names(addresses))).unwrap_or_else(|payload| {
        forget(payload); // its drop might panic in turn
        Vec::new()
    });
    for (index, line) in
        found.iter().take(count).enumerate().flat_map(|(index, lines)| lines.iter().map(move |line| (index, line)))
    {
        // SAFETY: the table is the one of this call.
        let result = unsafe { add(table, index, line) };
        if result < 0 {
            return result;
        }
    }
    0
}

/// # Safety
/// `table` is the table of the symbolizer call that is running.
unsafe fn add(table: *mut sys::onstack_symbol_table, index: usize, line: &Named) -> c_int {
    let text = |text: &str| Some(CString::new(text).ok()?).filter(|text| !text.is_empty());
    let (name, system_name, file) = (text(&line.name), text(&line.system_name), text(&line.file));
    let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    let raw = sys::onstack_symbol_line {
        size: size_of::<sys::onstack_symbol_line>() as u32,
        reserved: 0,
        name: pointer(&name),
        system_name: pointer(&system_name),
        file: pointer(&file),
        line: line.line,
        start_line: 0,
    };
    // SAFETY: the strings live during the call; the table is the caller's promise.
    unsafe { sys::onstack_symbol_add(table, index, &raw) }
}

/// The same as a profile in pprof's format, not compressed: one sample a thread, with the labels `state`, `wait`, `on` and
/// `holder`. A comment `onstack.dump without_stack=N` says how many threads are missing in it.
///
/// # Errors
/// As [`dump`].
pub fn dump_pprof() -> Result<Vec<u8>> {
    let threads = Aggregate::new(Kept::default())?;
    let missing = threads.take_dump()?;
    let comments = CString::new(format!("onstack.dump without_stack={missing}")).unwrap_or_default();
    let form = Form { names: true, age: Duration::ZERO, kind: sys::ONSTACK_KIND_DUMP, period: 0 };
    threads.write_pprof(SystemTime::now(), Duration::ZERO, form, &comments)
}
