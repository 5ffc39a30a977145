// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust program's threads have alternate signal stacks of 8 KiB, of which the kernel's frame takes 3.4 (11 with AMX), and
//! Go uses them on when such a thread calls into it. Here they call into Go, which calls C, while we sample: the default
//! unwinder has room; one that asks for more than there is loses those ticks, counted, and nothing else happens.
//!
//! Rust's own stacks are there only where Rust's handler for SIGSEGV came first, as when Go is loaded later: an archive
//! that is linked in comes before. So the threads make theirs here.

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::{mem, ptr, thread};

use onstack_sys::*;

/// The Go archive calls it, and the linker looks there last.
#[used]
static RUST_LOAD: extern "C" fn() = matrixload::matrix_load_rust;

#[repr(C)]
struct SignalStack {
    start: *mut c_void,
    flags: c_int,
    size: usize,
}

extern "C" {
    fn matrixGoLoadStart(mix: *const c_char) -> c_int;
    fn matrixGoLoadStop();
    fn matrixGoHealth() -> c_int;
    fn matrixGoSpin();
    fn sigaltstack(new: *const SignalStack, old: *mut SignalStack) -> c_int;
    fn gettid() -> i32;
}

const GREEDY_BYTES: u32 = 16384;

static QUIT: AtomicBool = AtomicBool::new(false);
/// Kernel ids of the Rust threads, and the least and the greatest size of their signal stacks after a call into Go.
static WORKERS: Mutex<(Vec<i32>, usize, usize)> = Mutex::new((Vec::new(), usize::MAX, 0));
static SAMPLED: Mutex<Option<HashSet<i32>>> = Mutex::new(None);

fn work() {
    let own = Vec::leak(vec![0u8; 8192]);
    let mut stack = SignalStack { start: own.as_mut_ptr().cast(), flags: 0, size: own.len() };
    // SAFETY: `own` is never freed; all may be called on any thread; `stack` is written.
    let tid = unsafe {
        sigaltstack(&stack, ptr::null_mut());
        matrixGoSpin();
        sigaltstack(ptr::null(), &mut stack);
        gettid()
    };
    {
        let mut workers = WORKERS.lock().unwrap();
        workers.0.push(tid);
        workers.1 = workers.1.min(stack.size);
        workers.2 = workers.2.max(stack.size);
    }
    while !QUIT.load(Ordering::Relaxed) {
        // SAFETY: as above.
        unsafe { matrixGoSpin() }
    }
}

unsafe extern "C" fn sink(_: *mut c_void, sample: *const onstack_sample) -> c_int {
    // SAFETY: valid during the call.
    let tid = unsafe { (*sample).tid };
    SAMPLED.lock().unwrap().get_or_insert_with(HashSet::new).insert(tid);
    0
}

unsafe extern "C" fn walk(
    _: *mut c_void,
    registers: *const onstack_registers,
    _: *mut c_void,
    frames: *mut u64,
    _: u32,
) -> onstack_walk_result {
    // SAFETY: room for at least one frame; a result of zeroes is a valid one.
    unsafe {
        *frames = (*registers).pc;
        let mut result: onstack_walk_result = mem::zeroed();
        result.frame_count = 1;
        result
    }
}

/// A second of sampling; its counters and the threads that have samples.
fn sample(unwinder: Option<&onstack_unwinder>) -> Result<(onstack_stats, HashSet<i32>), c_int> {
    *SAMPLED.lock().unwrap() = None;
    // SAFETY: the structures live as long as they are used, and are plain data.
    unsafe {
        let mut options: onstack_options = mem::zeroed();
        let mut session = ptr::null_mut();
        let mut stats: onstack_stats = mem::zeroed();
        stats.size = mem::size_of::<onstack_stats>() as u32;
        onstack_options_init(&mut options, mem::size_of::<onstack_options>());
        options.frequency = 500;
        options.on_stack = ONSTACK_ON as u8;
        options.sink = Some(sink);
        options.custom_unwinder = unwinder.map_or(ptr::null(), |u| u);
        let result = onstack_session_start(&options, &mut session);
        if result != 0 {
            return Err(result);
        }
        thread::sleep(std::time::Duration::from_millis(1500));
        onstack_session_stop(session);
        onstack_session_stats(session, &mut stats);
        onstack_session_free(session);
        Ok((stats, SAMPLED.lock().unwrap().take().unwrap_or_default()))
    }
}

fn check(good: bool, name: &str, text: String) -> bool {
    println!("{} rust stacks, {name}: {text}", if good { "ok" } else { "not ok" });
    good
}

fn books_close(s: &onstack_stats) -> bool {
    let drops = s.dropped_ring_full + s.dropped_no_stack + s.dropped_unwinder + s.dropped_stopping;
    s.ticks == s.recorded + s.unattributed + drops
}

fn main() {
    // SAFETY: a literal.
    let mut good = unsafe { matrixGoLoadStart(c"pure".as_ptr()) } == 0;
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(work)).collect();
    thread::sleep(std::time::Duration::from_millis(200));
    let (workers, least, greatest) = WORKERS.lock().unwrap().clone();
    good &= check(
        workers.len() == 2 && greatest < GREEDY_BYTES as usize,
        "the threads",
        format!("{} have signal stacks of {least} to {greatest} bytes inside and after Go", workers.len()),
    );

    let (stats, sampled) = sample(None).expect("a session with the default unwinder");
    good &= check(
        stats.dropped_no_stack == 0 && workers.iter().all(|tid| sampled.contains(tid)) && books_close(&stats),
        "the default unwinder has room",
        format!("{} ticks, {} dropped for want of stack", stats.ticks, stats.dropped_no_stack),
    );

    let greedy = onstack_unwinder {
        size: mem::size_of::<onstack_unwinder>() as u32,
        stack_bytes: GREEDY_BYTES,
        name: c"greedy".as_ptr(),
        data: ptr::null_mut(),
        init: None,
        walk: Some(walk),
    };
    let (stats, sampled) = sample(Some(&greedy)).expect("a session with an unwinder that wants much");
    good &= check(
        stats.dropped_no_stack > 50 && !workers.iter().any(|tid| sampled.contains(tid)) && books_close(&stats),
        "where there is too little, ticks are dropped and counted",
        format!("{} ticks, {} dropped for want of stack", stats.ticks, stats.dropped_no_stack),
    );
    good &= check(stats.recorded > 50, "and Go's threads go on", format!("{} recorded", stats.recorded));

    QUIT.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("no worker panics");
    }
    // SAFETY: both take nothing.
    let health = unsafe {
        matrixGoLoadStop();
        matrixGoHealth()
    };
    good &= check(health == 0, "the Go runtime is whole", format!("health {health}"));
    std::process::exit(i32::from(!good));
}
