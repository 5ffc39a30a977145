// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session's counters, and what they say of each program and library.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::mem::size_of;
use std::ptr;
use std::time::Duration;

use onstack_sys as sys;

use crate::error::{check, written, Result};
use crate::sample::{Period, Truncation};

/// Counters of a session since its start. In ticks,
/// `ticks == recorded + unattributed + dropped_ring_full + dropped_no_stack + dropped_unwinder + dropped_stopping`,
/// exactly so once the session has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Whether the session is sampling.
    pub running: bool,
    /// What samples are apart: time between two ticks of a thread; with [`Clock::Heap`](crate::Clock::Heap) the mean number of
    /// allocated bytes.
    pub period: Period,
    /// Ticks that were recognized as this session's.
    pub ticks: u64,
    /// Ticks whose sample went into the buffer.
    pub recorded: u64,
    /// Samples in the buffer; `recorded / samples` is their mean weight.
    pub samples: u64,
    /// Samples handed to the sink.
    pub delivered: u64,
    /// Ticks of bursts of more than 250 ms, which belong to no stack.
    pub unattributed: u64,
    /// Ticks that found the buffer full, because the sink was too slow.
    pub dropped_ring_full: u64,
    /// Ticks that left too little room on the signal stack.
    pub dropped_no_stack: u64,
    /// Ticks for which the unwinder returned no frame.
    pub dropped_unwinder: u64,
    /// Ticks that were due, but had not come when the session was stopped, or came meanwhile.
    pub dropped_stopping: u64,
    /// Of these, those of threads that block the signal; while the session runs, those that wait for such. They have no samples:
    /// let them take it (`pthread_sigmask`). Libraries' own threads often block all signals, as jemalloc's do
    /// (`background_thread:false`).
    pub blocked: u64,
    /// Samples, not ticks, that the sink refused.
    pub dropped_sink: u64,
    /// Samples whose stack does not reach its root; [`Stats::truncated_by`] says why.
    pub truncated: u64,
    truncated_by: [u64; 16],
    /// Threads that got a timer of this session.
    pub threads_seen: u64,
    /// Of these, alive now as far as known.
    pub threads_armed: u64,
    /// Attempts that found no timer; these threads are sampled by the process-wide tick.
    pub threads_unarmed: u64,
    /// Expiries of the process-wide timer that finds new threads.
    pub process_ticks: u64,
    /// Signals of others handed to the action that was found.
    pub forwarded: u64,
    /// Of these, those of somebody else's POSIX timer.
    pub forwarded_timer: u64,
    /// Signals of others for which no handler was found.
    pub swallowed: u64,
    /// Ticks of sessions that were over already.
    pub late: u64,
    /// Signals of others that came back from the action they were forwarded to, and were dropped.
    pub looped: u64,
    /// The unwinder in use.
    pub unwinder: String,
    /// How stacks are read: `probe`, `copy`, `pipe` or `none`.
    pub reader: String,
    /// What ticks: `cpu`, `wall`, `wall-signal`, or `cpu-ticker` where timers are refused; `heap`, where allocations are counted
    /// as ticks.
    pub clock: String,
    /// CPU time of the process while the session ran, onstack's own left out: what `ticks * period` comes to, give or take a period
    /// a thread. Where that is less, threads have ended before a tick met them. Zero where it is not known: other clocks.
    pub cpu: Duration,
    /// Sampled allocations that found no place among [`Options::heap_objects`](crate::Options::heap_objects).
    pub heap_untracked: u64,
    /// Of those in use, freed without a report: their address was given out again.
    pub heap_reused: u64,
    /// Bytes that the sampled allocations in use stand for.
    pub heap_in_use: u64,
    /// Looks of [`Clock::Wall`](crate::Clock::Wall) at all threads. With very many threads they come less often than asked for.
    pub wall_rounds: u64,
    /// Looks at one thread that had run since the last look.
    pub wall_looks: u64,
    /// Of these, at threads that ran meanwhile: their stacks were not believed.
    pub wall_moved: u64,
    /// Of these, that the kernel refused: the process has dropped its privileges without exec.
    pub wall_refused: u64,
    /// Samples with frames of an interpreter ([`Options::interpreters`](crate::Options::interpreters)).
    pub interpreted: u64,
    /// Of these, not with all: memory that could not be read, or too many.
    pub interpreted_cut: u64,
    /// Samples whose frames of an interpreter fit no native ones, and were left out.
    pub interpreted_unmatched: u64,
    /// Of `interpreted`, those with a function that was gone before it was named.
    pub interpreted_unnamed: u64,
}

impl Stats {
    /// Samples that ended early for that reason.
    pub fn truncated_by(&self, reason: Truncation) -> u64 {
        self.truncated_by.get(reason.code() as usize).copied().unwrap_or(0)
    }

    /// # Safety
    /// `session` is a live handle.
    pub(crate) unsafe fn read(session: *const sys::onstack_session) -> Result<Self> {
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut raw: sys::onstack_stats = unsafe { std::mem::zeroed() };
        raw.size = size_of::<sys::onstack_stats>() as u32;
        // SAFETY: the caller's promise; the structure is ours and its size is said.
        check(unsafe { sys::onstack_session_stats(session, &mut raw) })?;
        Ok(Self {
            running: raw.running != 0,
            period: Period::new(raw.period, raw.period_unit),
            ticks: raw.ticks,
            recorded: raw.recorded,
            samples: raw.samples,
            delivered: raw.delivered,
            unattributed: raw.unattributed,
            dropped_ring_full: raw.dropped_ring_full,
            dropped_no_stack: raw.dropped_no_stack,
            dropped_unwinder: raw.dropped_unwinder,
            dropped_stopping: raw.dropped_stopping,
            blocked: raw.blocked,
            dropped_sink: raw.dropped_sink,
            truncated: raw.truncated,
            truncated_by: raw.truncated_by,
            threads_seen: raw.threads_seen,
            threads_armed: raw.threads_armed,
            threads_unarmed: raw.threads_unarmed,
            process_ticks: raw.process_ticks,
            forwarded: raw.forwarded,
            forwarded_timer: raw.forwarded_timer,
            swallowed: raw.swallowed,
            late: raw.late,
            looped: raw.looped,
            // SAFETY: the core fills in static strings, or the name of an unwinder that outlives the session.
            unwinder: unsafe { text(raw.unwinder) },
            // SAFETY: as above.
            reader: unsafe { text(raw.reader) },
            // SAFETY: as above.
            clock: unsafe { text(raw.clock) },
            cpu: Duration::from_nanos(raw.cpu_ns),
            heap_untracked: raw.heap_untracked,
            heap_reused: raw.heap_reused,
            heap_in_use: raw.heap_in_use,
            wall_rounds: raw.wall_rounds,
            wall_looks: raw.wall_looks,
            wall_moved: raw.wall_moved,
            wall_refused: raw.wall_refused,
            interpreted: raw.interpreted,
            interpreted_cut: raw.interpreted_cut,
            interpreted_unmatched: raw.interpreted_unmatched,
            interpreted_unnamed: raw.interpreted_unnamed,
        })
    }
}

/// The statistics as the core says them: the counters, then each module that lost stacks. For a profile's comments.
///
/// # Safety
/// `session` is a live handle.
pub(crate) unsafe fn lines(session: *mut sys::onstack_session) -> Result<Vec<String>> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { written(|writer, data| sys::onstack_session_stats_text(session, writer, data)) }?;
    Ok(lines_of(&bytes))
}

/// The account of the process's memory, as the core says it.
///
/// # Safety
/// `session` is a live handle.
pub(crate) unsafe fn memory_lines(session: *mut sys::onstack_session) -> Result<Vec<String>> {
    // SAFETY: the caller's promise.
    let bytes =
        unsafe { written(|writer, data| sys::onstack_session_memory_text(session, ptr::null(), writer, data)) }?;
    Ok(lines_of(&bytes))
}

fn lines_of(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// # Safety
/// `pointer` is null or a NUL-terminated string that lives during the call.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The reasons by the keys that comments have for them.
const REASONS: [(Truncation, &str); 10] = [
    (Truncation::Misaligned, "misaligned"),
    (Truncation::NotRising, "not_rising"),
    (Truncation::NoRule, "no_rule"),
    (Truncation::Unreadable, "unreadable"),
    (Truncation::BadReturn, "bad_return"),
    (Truncation::Pending, "pending"),
    (Truncation::StackSwitch, "stack_switch"),
    (Truncation::Depth, "depth"),
    (Truncation::ByDesign, "by_design"),
    (Truncation::Unwinder, "unwinder"),
];

/// What a key of comments or the reason in a frame `[truncated: reason]` means and what helps, by the core. Options have
/// the same names there as here.
pub fn advice(key: &str) -> Option<&'static str> {
    let key = CString::new(key).ok()?;
    // SAFETY: takes any C string, which lives during the call.
    let text = unsafe { sys::onstack_advice(key.as_ptr()) };
    // SAFETY: null is left out, and what the core returns is a constant of ASCII.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().ok())?
}

/// How frames in one program or library led to their callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleStats {
    /// As the loader names it; empty for code in no file (generated at run time).
    pub path: String,
    /// Frames left by unwind tables.
    pub rules: u64,
    /// Frames left by Go's own tables.
    pub go: u64,
    /// Frames left by the chain of frame pointers.
    pub frame_pointer: u64,
    /// Frames left by the user's unwinder.
    pub unwinder: u64,
    /// Stacks whose root lies here.
    pub ended: u64,
    /// Stacks that were cut behind a frame that lies here.
    pub lost: u64,
    lost_by: [u64; 16],
}

impl ModuleStats {
    /// Stacks that were cut here for that reason.
    pub fn lost_by(&self, reason: Truncation) -> u64 {
        self.lost_by.get(reason.code() as usize).copied().unwrap_or(0)
    }

    /// What would keep most of the stacks that were lost; nothing where none was.
    pub fn advice(&self) -> Option<&'static str> {
        let lost = REASONS.iter().filter_map(|(reason, key)| Some((self.lost_by(*reason), advice(key)?)));
        lost.filter(|(lost, _)| *lost > 0).max_by_key(|(lost, _)| *lost).map(|(_, advice)| advice)
    }

    /// Asks the core.
    ///
    /// # Safety
    /// `session` is a live handle.
    pub(crate) unsafe fn read(session: *mut sys::onstack_session) -> Result<Vec<Self>> {
        let mut modules: Vec<Self> = Vec::new();
        let data = (&mut modules as *mut Vec<Self>).cast::<c_void>();
        // SAFETY: the caller's promise; the vector lives during the call.
        check(unsafe { sys::onstack_session_modules(session, Some(visit), data) })?;
        Ok(modules)
    }
}

/// Copies what the core says of one module.
unsafe extern "C" fn visit(data: *mut c_void, module: *const sys::onstack_module_stats) -> c_int {
    // SAFETY: the vector of `read`, and a structure that lives during this call with a path that lives for ever.
    let (modules, raw) = unsafe { (&mut *data.cast::<Vec<ModuleStats>>(), &*module) };
    // SAFETY: as above.
    let path = unsafe { text(raw.path) };
    modules.push(ModuleStats {
        path,
        rules: raw.rules,
        go: raw.go,
        frame_pointer: raw.frame_pointer,
        unwinder: raw.unwinder,
        ended: raw.ended,
        lost: raw.lost,
        lost_by: raw.lost_by,
    });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(lost: &[(Truncation, u64)]) -> ModuleStats {
        let mut module = ModuleStats::default();
        for &(reason, count) in lost {
            module.lost += count;
            module.lost_by[reason.code() as usize] = count;
        }
        module
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it asks the core
    fn the_core_has_an_advice_for_each_reason() {
        for (reason, key) in REASONS {
            assert_eq!(advice(key).is_some(), reason != Truncation::ByDesign, "{key}");
        }
        assert_eq!(advice("a\0b"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it asks the core
    fn advice_is_that_of_the_commonest_reason() {
        let module = module(&[(Truncation::NoRule, 2), (Truncation::NotRising, 5)]);
        assert_eq!(module.advice(), advice("not_rising"));
        assert_eq!(ModuleStats::default().advice(), None);
    }
}
