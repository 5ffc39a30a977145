// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core's profile: a sink that adds up stacks, with an owner.

use std::ffi::{c_int, CStr};
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::time::{Duration, SystemTime};

use onstack_sys as sys;

use crate::error::{check, Result};
use crate::options::switch;
use crate::symbolize::Symbolizer;
use crate::writer::written;

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
        // SAFETY: the profile is live.
        check(unsafe { sys::onstack_dump_take(self.0.as_ptr()) })
    }

    /// What has been counted, as an uncompressed pprof message.
    pub(crate) fn write_pprof(&self, start: SystemTime, duration: Duration, form: Form) -> Result<Vec<u8>> {
        self.write_pprof_with(start, duration, form, None)
    }

    /// The same with comments, a line each.
    pub(crate) fn write_pprof_with(
        &self,
        start: SystemTime,
        duration: Duration,
        form: Form,
        comments: Option<&CStr>,
    ) -> Result<Vec<u8>> {
        let mut symbolizer = form.names.then(Symbolizer::new);
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut options: sys::onstack_write_options = unsafe { std::mem::zeroed() };
        options.size = size_of::<sys::onstack_write_options>() as u32;
        options.symbolize = switch(Some(form.names));
        if let Some(symbolizer) = &mut symbolizer {
            (options.symbolizer, options.symbolizer_data) = symbolizer.callback();
        }
        options.start_time_unix_ns = nanoseconds(start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        options.duration_ns = nanoseconds(duration);
        options.heap_age_ns = u64::try_from(form.age.as_nanos()).unwrap_or(u64::MAX);
        options.kind = form.kind;
        options.period = form.period;
        options.comments = comments.map_or(ptr::null(), CStr::as_ptr);
        let profile = self.0.as_ptr();
        // SAFETY: profile, symbolizer and comments live during the call, and each callback fits its data.
        unsafe { written(|writer, data| sys::onstack_profile_write_pprof(profile, &options, writer, data)) }
    }
}

impl Drop for Aggregate {
    fn drop(&mut self) {
        // SAFETY: sinks count into it only while somebody owns it.
        unsafe { sys::onstack_profile_free(self.0.as_ptr()) };
    }
}

/// One sample with this stack of look-up addresses, as an uncompressed pprof message with names.
pub(crate) fn written_of(addresses: &[u64]) -> Result<Vec<u8>> {
    let period = 1;
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
    let form = Form { names: true, age: Duration::ZERO, kind: sys::ONSTACK_KIND_CPU, period };
    aggregate.write_pprof(SystemTime::now(), Duration::ZERO, form)
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use std::ffi::CString;

    /// A sample as the core's drain would give it.
    fn give(profile: &Aggregate, thread: &str, weight: u32, truncation: u32, frames: &[u64]) {
        let thread = CString::new(thread).unwrap();
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut sample: sys::onstack_sample = unsafe { std::mem::zeroed() };
        sample.size = size_of::<sys::onstack_sample>() as u32;
        sample.kind = sys::ONSTACK_KIND_CPU;
        sample.unit = sys::ONSTACK_UNIT_NANOSECONDS;
        sample.weight = weight;
        sample.time_ns = 1;
        sample.period = 5_000_000;
        sample.value = u64::from(weight) * sample.period;
        sample.tid = 7;
        sample.truncation = truncation;
        sample.thread_name = thread.as_ptr();
        sample.frames = frames.as_ptr();
        sample.frame_count = frames.len() as u32;
        // SAFETY: profile and sample live during the call.
        assert_eq!(unsafe { profile.count(&sample) }, 0);
    }

    fn folded_by_core(profile: &Aggregate) -> String {
        let mut symbolizer = Symbolizer::new();
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut options: sys::onstack_write_options = unsafe { std::mem::zeroed() };
        options.size = size_of::<sys::onstack_write_options>() as u32;
        (options.symbolizer, options.symbolizer_data) = symbolizer.callback();
        let profile = profile.0.as_ptr();
        // SAFETY: all of them live during the call.
        let bytes =
            unsafe { written(|writer, data| sys::onstack_profile_write_folded(profile, &options, writer, data)) };
        String::from_utf8(bytes.unwrap()).unwrap()
    }

    /// Its method's full name has a semicolon.
    trait Length {
        fn length(&self) -> usize;
    }

    impl Length for [u8; 4] {
        #[inline(never)]
        fn length(&self) -> usize {
            self.iter().map(|byte| usize::from(*std::hint::black_box(byte))).sum()
        }
    }

    #[test]
    fn the_core_and_this_crate_fold_alike() {
        let profile = Aggregate::new(Kept::default()).unwrap();
        let one = <[u8; 4] as Length>::length as fn(&_) -> _ as usize as u64;
        let two = nanoseconds as fn(_) -> _ as usize as u64;
        // Inside their code, as return addresses are.
        let (one, two) = (one + 4, two + 4);
        give(&profile, "main", 1, sys::ONSTACK_TRUNCATED_NOT, &[one, two]);
        give(&profile, "main", 3, sys::ONSTACK_TRUNCATED_NOT, &[one, two]);
        give(&profile, "main", 2, sys::ONSTACK_TRUNCATED_DEPTH, &[two, one, two]);
        give(&profile, "main (2)", 1, sys::ONSTACK_TRUNCATED_NOT, &[two]);
        give(&profile, "a;b", 1, sys::ONSTACK_TRUNCATED_NOT, &[0x1000, two]);
        give(&profile, "", 9, sys::ONSTACK_TRUNCATED_UNREADABLE, &[two]);

        let by_core = folded_by_core(&profile);
        let (kind, period) = (sys::ONSTACK_KIND_CPU, 5_000_000);
        let form = Form { names: true, age: Duration::ZERO, kind, period };
        let pprof = profile.write_pprof(SystemTime::now(), Duration::from_secs(1), form).unwrap();
        let mut folded = Vec::new();
        Profile::read(&pprof[..]).unwrap().folded(&mut folded).unwrap();
        assert_eq!(String::from_utf8(folded).unwrap(), by_core);
        assert_eq!(by_core.lines().count(), 5, "{by_core}");
        for part in [
            "main;",
            "[u8: 4] as onstack::aggregate::tests::Length>::length",
            "[unnamed thread];[truncated",
            "a:b;",
            ";0x1000 1\n",
        ] {
            assert!(by_core.contains(part), "{part} is not in\n{by_core}");
        }
    }
}
