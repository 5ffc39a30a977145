// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust program without Go: ../host/plain.c on Rust's threads, with Rust's small alternate signal stacks.

use std::ffi::{c_char, c_int, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

// The core comes with it; the driver calls it.
use onstack_sys as _;

extern "C" {
    fn matrix_plain_main(argc: c_int, argv: *const *const c_char) -> c_int;
}

static QUIT: AtomicBool = AtomicBool::new(false);
static THREADS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// As in driver.h.
#[no_mangle]
extern "C" fn matrix_threads_start(count: c_int, body: unsafe extern "C" fn()) -> c_int {
    QUIT.store(false, Ordering::Relaxed);
    let started = (0..count).map(|_| {
        thread::spawn(move || {
            while !QUIT.load(Ordering::Relaxed) {
                // SAFETY: the host's bodies take nothing and may run on any thread.
                unsafe { body() }
            }
        })
    });
    THREADS.lock().expect("no worker panics").extend(started);
    0
}

/// As in driver.h.
#[no_mangle]
extern "C" fn matrix_threads_stop() {
    QUIT.store(true, Ordering::Relaxed);
    for thread in THREADS.lock().expect("no worker panics").drain(..) {
        thread.join().expect("no worker panics");
    }
}

fn main() {
    let arguments: Vec<CString> = std::env::args().map(|a| CString::new(a).expect("arguments end in NUL")).collect();
    let pointers: Vec<*const c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    // SAFETY: both live until the call returns.
    let status = unsafe { matrix_plain_main(pointers.len() as c_int, pointers.as_ptr()) };
    std::process::exit(status);
}
