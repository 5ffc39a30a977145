// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work whose cost is known, and a look at what the process shows to the outside.
#![allow(dead_code)] // each test program uses a part

use std::hint::black_box;
use std::mem::{size_of, MaybeUninit};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Tests share the process's signal action and its CPU, and so run one after the other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// CPU time of this thread.
pub fn cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the place for the result is ours.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    assert_eq!(result, 0);
    // SAFETY: filled in by the call that succeeded.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A loop without calls, inlined at every level of optimization.
#[inline(always)]
pub fn mix(rounds: u64) -> u64 {
    let mut state = rounds | 1;
    let mut round = 0;
    while round < rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        round += 1;
    }
    state
}

#[inline(never)]
pub fn heavy(rounds: u64) -> u64 {
    black_box(mix(black_box(3 * rounds)))
}

#[inline(never)]
pub fn light(rounds: u64) -> u64 {
    black_box(mix(black_box(rounds)))
}

/// Uses that much CPU time of this thread, in `heavy` and `light` by turns; returns what each used. Turns of one length
/// would be in step with the kernel's tick on some machine, and each sample fall into the same one of the two.
#[inline(never)]
pub fn burn(total: Duration) -> (Duration, Duration) {
    let (mut in_heavy, mut in_light) = (Duration::ZERO, Duration::ZERO);
    let mut random = 1u32;
    while in_heavy + in_light < total {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let rounds = 10_000 + u64::from(random >> 16) % 60_000;
        let start = cpu_time();
        heavy(rounds);
        let middle = cpu_time();
        light(rounds);
        in_heavy += middle - start;
        in_light += cpu_time() - middle;
    }
    (in_heavy, in_light)
}

/// An action as the kernel has it, the restorer included.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Action {
    pub handler: usize,
    pub flags: libc::c_ulong,
    pub restorer: usize,
    pub mask: u64,
}

/// Asks the kernel: the C library fills in a part of its own structure only.
pub fn action(signal: i32) -> Action {
    let mut action = Action::default();
    let none = std::ptr::null::<Action>();
    // SAFETY: only reads the action, into a place of ours that has the kernel's layout.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, none, &mut action as *mut Action, size_of::<u64>()) };
    assert_eq!(result, 0);
    action
}

/// Threads of the library in this process.
pub fn own_threads() -> usize {
    // A thread that has been joined may be listed for another moment.
    let _ = eventually(|| listed_threads() == 0);
    listed_threads()
}

fn listed_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("a Linux system");
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(name).filter(|name| name.starts_with("onstack")).count()
}

/// Waits until something holds; says whether it came to hold.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}
