// SPDX-License-Identifier: MIT OR Apache-2.0
//! pprof-rs behind two C functions, so that the benchmark interrupts the same C code as with the other subjects.

use std::ffi::{c_char, c_void, CString};
use std::sync::Mutex;

use pprof::{ProfilerGuard, ProfilerGuardBuilder};

struct Session {
    guard: ProfilerGuard<'static>,
    period_ns: u64,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);
/// Of the session that was counted last: samples, frames.
static STACKS: Mutex<Vec<(u64, Vec<u64>)>> = Mutex::new(Vec::new());

type Visit = unsafe extern "C" fn(*mut c_void, *const u64, usize, u64);

#[repr(C)]
pub struct Counts {
    samples: u64,
    frames: u64,
    period_ns: u64,
}

/// Errors live for ever: the benchmark ends with the first.
fn error_text(text: String) -> *const c_char {
    CString::new(text).unwrap_or_default().into_raw()
}

fn start(hz: u32) -> Result<(), String> {
    let frequency = i32::try_from(hz).map_err(|_| format!("{hz} Hz is too much"))?;
    let guard = ProfilerGuardBuilder::default()
        .frequency(frequency)
        .build()
        .map_err(|e| e.to_string())?;
    // pprof-rs rounds its period to microseconds.
    let period_ns = 1_000_000 / u64::from(hz) * 1000;
    *SESSION.lock().unwrap() = Some(Session { guard, period_ns });
    Ok(())
}

/// The frame types have no public names, and differ in how they show their address.
#[cfg(not(any(feature = "frame-pointer", feature = "framehop-unwinder")))]
macro_rules! address {
    ($frame:expr) => {
        $frame.ip() as u64
    };
}
#[cfg(any(feature = "frame-pointer", feature = "framehop-unwinder"))]
macro_rules! address {
    ($frame:expr) => {
        $frame.ip as u64
    };
}

fn count(session: &Session) -> Result<Counts, String> {
    let report = session
        .guard
        .report()
        .build_unresolved()
        .map_err(|e| e.to_string())?;
    let mut counts = Counts {
        samples: 0,
        frames: 0,
        period_ns: session.period_ns,
    };
    let mut stacks = STACKS.lock().unwrap();
    stacks.clear();
    for (stack, samples) in &report.data {
        let samples = u64::try_from(*samples).unwrap_or(0);
        counts.samples += samples;
        counts.frames += samples * stack.frames.len() as u64;
        let frames = stack.frames.iter().map(|f| address!(f)).collect();
        stacks.push((samples, frames));
    }
    Ok(counts)
}

#[no_mangle]
pub extern "C" fn bench_pprof_rs_start(hz: u32) -> *const c_char {
    start(hz).map_or_else(error_text, |()| std::ptr::null())
}

/// Counts (unless `counts` is null) while the guard lives, then drops it, which ends the profiling.
///
/// # Safety
/// `counts` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn bench_pprof_rs_stop(counts: *mut Counts) -> *const c_char {
    let Some(session) = SESSION.lock().unwrap().take() else {
        return error_text("it was not started".into());
    };
    if counts.is_null() {
        return std::ptr::null();
    }
    match count(&session) {
        Ok(found) => {
            counts.write(found);
            std::ptr::null()
        }
        Err(why) => error_text(why),
    }
}

/// # Safety
/// `visit` takes what it is given: data, frames, their number, samples.
#[no_mangle]
pub unsafe extern "C" fn bench_pprof_rs_each_stack(visit: Visit, data: *mut c_void) {
    for (samples, frames) in STACKS.lock().unwrap().iter() {
        visit(data, frames.as_ptr(), frames.len(), *samples);
    }
}
