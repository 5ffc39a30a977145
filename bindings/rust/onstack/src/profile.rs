// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core's profile: a sink that adds up stacks, with an owner.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::{Duration, SystemTime};

use onstack_sys as sys;

use crate::error::{check, Result};
use crate::symbolize::Symbolizer;

pub(crate) struct Profile(NonNull<sys::onstack_profile>);

// SAFETY: the core allows its profile functions from any thread.
unsafe impl Send for Profile {}
// SAFETY: as above.
unsafe impl Sync for Profile {}

impl Profile {
    pub(crate) fn new() -> Result<Self> {
        let mut profile = ptr::null_mut();
        // SAFETY: no options means the defaults; the result has a place.
        check(unsafe { sys::onstack_profile_new(ptr::null(), &mut profile) })?;
        Ok(Self(NonNull::new(profile).expect("a call that succeeds gives a profile")))
    }

    /// The sink and its data. The profile must outlive the session that gets them.
    pub(crate) fn sink(&self) -> (sys::onstack_sink, *mut c_void) {
        (Some(sys::onstack_profile_sink), self.0.as_ptr().cast())
    }

    /// The profile as it is now, as an uncompressed pprof message.
    pub(crate) fn write_pprof(&self, start: SystemTime, duration: Duration) -> Result<Vec<u8>> {
        let mut symbolizer = Symbolizer::new();
        let mut bytes: Vec<u8> = Vec::new();
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut options: sys::onstack_write_options = unsafe { std::mem::zeroed() };
        options.size = size_of::<sys::onstack_write_options>() as u32;
        (options.symbolizer, options.symbolizer_data) = symbolizer.callback();
        options.start_time_unix_ns = nanoseconds(start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        options.duration_ns = nanoseconds(duration);
        let data = (&mut bytes as *mut Vec<u8>).cast::<c_void>();
        // SAFETY: profile, symbolizer and vector live during the call, and each callback fits its data.
        check(unsafe { sys::onstack_profile_write_pprof(self.0.as_ptr(), &options, Some(append), data) })?;
        Ok(bytes)
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // SAFETY: the owner drops it after the session that had it as its sink.
        unsafe { sys::onstack_profile_free(self.0.as_ptr()) };
    }
}

unsafe extern "C" fn append(data: *mut c_void, bytes: *const c_void, length: usize) -> c_int {
    if length == 0 {
        return 0;
    }
    // SAFETY: the vector of `write_pprof`, and as many bytes as the core says.
    let (vector, bytes) = unsafe { (&mut *data.cast::<Vec<u8>>(), slice::from_raw_parts(bytes.cast::<u8>(), length)) };
    if vector.try_reserve(length).is_err() {
        return 1;
    }
    vector.extend_from_slice(bytes);
    0
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use std::ffi::CString;

    /// A sample as the core's drain would give it.
    fn give(profile: &Profile, thread: &str, weight: u32, truncation: u32, frames: &[u64]) {
        let thread = CString::new(thread).unwrap();
        let sample = sys::onstack_sample {
            size: size_of::<sys::onstack_sample>() as u32,
            weight,
            time_ns: 1,
            period_ns: 5_000_000,
            tid: 7,
            truncation,
            thread_name: thread.as_ptr(),
            frames: frames.as_ptr(),
            frame_count: frames.len() as u32,
            reserved: 0,
        };
        // SAFETY: profile and sample live during the call.
        assert_eq!(unsafe { sys::onstack_profile_sink(profile.sink().1, &sample) }, 0);
    }

    fn folded_by_core(profile: &Profile) -> String {
        let mut symbolizer = Symbolizer::new();
        let mut bytes: Vec<u8> = Vec::new();
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut options: sys::onstack_write_options = unsafe { std::mem::zeroed() };
        options.size = size_of::<sys::onstack_write_options>() as u32;
        (options.symbolizer, options.symbolizer_data) = symbolizer.callback();
        let data = (&mut bytes as *mut Vec<u8>).cast::<c_void>();
        // SAFETY: all of them live during the call.
        check(unsafe { sys::onstack_profile_write_folded(profile.0.as_ptr(), &options, Some(append), data) }).unwrap();
        String::from_utf8(bytes).unwrap()
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
        let profile = Profile::new().unwrap();
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
        let pprof = profile.write_pprof(SystemTime::now(), Duration::from_secs(1)).unwrap();
        let mut folded = Vec::new();
        Report::from_pprof(&pprof[..]).unwrap().folded(&mut folded).unwrap();
        assert_eq!(String::from_utf8(folded).unwrap(), by_core);
        assert_eq!(by_core.lines().count(), 5, "{by_core}");
        for part in [
            "main;",
            "[u8: 4] as onstack::profile::tests::Length>::length",
            "[unnamed thread];[truncated",
            "a:b;",
            ";0x1000 1\n",
        ] {
            assert!(by_core.contains(part), "{part} is not in\n{by_core}");
        }
    }
}
