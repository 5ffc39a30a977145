// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loader's list of objects, asked so that `fork` is safe meanwhile.
//!
//! glibc takes a lock for `dl_iterate_phdr` and never gives it back in the child of a fork whose parent had a thread inside at that
//! instant: the child's next `dlopen`, often a name service's, waits for ever. So a fork waits until no thread of ours is inside,
//! and none enters while a thread forks. The core does the same for its own calls (`core/platform/loader.h`).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

pub(crate) type Visit = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;

/// Threads that are in a call.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Threads that are about to fork, or do.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The loader's lock may be held by a thread that is not in this process.
static LOST: AtomicBool = AtomicBool::new(false);

/// Waits 0.1 s at least, but not for ever: a thread that forks inside a constructor has the lock that a thread of ours waits for.
fn wait_for_none(word: &AtomicU32) {
    for _ in 0..2000 {
        if word.load(SeqCst) == 0 {
            return;
        }
        thread::sleep(Duration::from_micros(50));
    }
}

extern "C" fn before_fork() {
    FORKS.fetch_add(1, SeqCst);
    wait_for_none(&INSIDE);
}

extern "C" fn in_parent() {
    FORKS.fetch_sub(1, SeqCst);
}

extern "C" fn in_child() {
    FORKS.store(0, SeqCst);
    if INSIDE.swap(0, SeqCst) != 0 {
        LOST.store(true, SeqCst);
    }
}

/// As `dl_iterate_phdr`. No visit in the child of a fork that could not wait.
///
/// # Safety
/// `visit` fits `data`.
pub(crate) unsafe fn each(visit: Visit, data: *mut c_void) {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    if !PREPARED.swap(true, SeqCst) {
        // SAFETY: libc drops the handlers of an object that is unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    }
    if LOST.load(SeqCst) {
        return;
    }
    // Each side raises its own word before it looks at the other's, so one of the two sees the other.
    INSIDE.fetch_add(1, SeqCst);
    if FORKS.load(SeqCst) != 0 {
        INSIDE.fetch_sub(1, SeqCst);
        wait_for_none(&FORKS);
        INSIDE.fetch_add(1, SeqCst);
    }
    // SAFETY: as the caller promises.
    unsafe { libc::dl_iterate_phdr(Some(visit), data) };
    INSIDE.fetch_sub(1, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn slow(_: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        thread::sleep(Duration::from_micros(20));
        0
    }

    /// Whether a child that asks the loader, as a `dlopen` in it would, comes to its end.
    fn child_asks() -> bool {
        // SAFETY: the child asks the loader, whose lock is free, and ends by _exit; the parent waits for its own child.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(10);
                libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
                libc::dl_iterate_phdr(Some(slow), std::ptr::null_mut());
                libc::_exit(0);
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0) == child && status == 0
        }
    }

    #[test]
    fn a_fork_waits_until_no_thread_is_inside() {
        static OVER: AtomicBool = AtomicBool::new(false);
        let asks = thread::spawn(|| {
            while !OVER.load(SeqCst) {
                // SAFETY: the visit needs no data.
                unsafe { each(slow, std::ptr::null_mut()) };
            }
        });
        thread::sleep(Duration::from_millis(10));
        let hung = (0..20).position(|_| !child_asks());
        OVER.store(true, SeqCst);
        asks.join().unwrap();
        assert_eq!(hung, None, "a child waited for the loader's lock");
    }
}
