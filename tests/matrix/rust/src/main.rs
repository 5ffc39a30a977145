// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust program with Go linked in as a c-archive. The threads that Go does not know are Rust's, with Rust's small
//! alternate signal stacks; the driver (../host/driver.c) runs on Rust's main thread.

use std::ffi::{c_char, c_int, c_longlong, CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

// The core comes with it; the driver calls it.
use onstack_sys as _;

/// The Go archive calls it, and the linker looks there last.
#[used]
static RUST_LOAD: extern "C" fn() = matrixload::matrix_load_rust;

/// The C library's stream; only handed through.
#[repr(C)]
struct FILE {
    opaque: [u8; 0],
}

/// As in driver.h.
#[repr(C)]
struct MatrixHost {
    profile_start: unsafe extern "C" fn() -> c_int,
    profile_stop: unsafe extern "C" fn() -> c_longlong,
    load_start: unsafe extern "C" fn(*const c_char) -> c_int,
    load_stop: unsafe extern "C" fn(),
    health: Option<unsafe extern "C" fn() -> c_int>,
    describe: Option<unsafe extern "C" fn(*mut FILE)>,
}

extern "C" {
    fn matrix_main(argc: c_int, argv: *const *const c_char, host: *const MatrixHost) -> c_int;
    fn matrix_burn();
    fn fprintf(out: *mut FILE, format: *const c_char, ...) -> c_int;
    fn matrixGoProfileStart() -> c_int;
    fn matrixGoProfileStop() -> c_longlong;
    fn matrixGoExternal() -> c_longlong;
    fn matrixGoLoadStart(mix: *const c_char) -> c_int;
    fn matrixGoLoadStop();
    fn matrixGoHealth() -> c_int;
    fn matrixGoSpin();
}

struct Workers {
    quit: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

static WORKERS: Mutex<Option<Workers>> = Mutex::new(None);

fn start_workers(count: usize, body: unsafe extern "C" fn()) {
    let quit = Arc::new(AtomicBool::new(false));
    let threads = (0..count)
        .map(|_| {
            let quit = Arc::clone(&quit);
            thread::spawn(move || {
                while !quit.load(Ordering::Relaxed) {
                    // SAFETY: both bodies take nothing and may run on any thread.
                    unsafe { body() }
                }
            })
        })
        .collect();
    *WORKERS.lock().expect("no worker panics") = Some(Workers { quit, threads });
}

unsafe extern "C" fn load_start(mix: *const c_char) -> c_int {
    // SAFETY: the driver hands over one of its arguments.
    let (name, result) = unsafe { (CStr::from_ptr(mix), matrixGoLoadStart(mix)) };
    match name.to_bytes() {
        b"foreign" if result == 0 => start_workers(1, matrix_burn),
        b"callin" if result == 0 => start_workers(2, matrixGoSpin),
        _ => {}
    }
    result
}

unsafe extern "C" fn load_stop() {
    if let Some(workers) = WORKERS.lock().expect("no worker panics").take() {
        workers.quit.store(true, Ordering::Relaxed);
        for thread in workers.threads {
            thread.join().expect("no worker panics");
        }
    }
    // SAFETY: takes nothing.
    unsafe { matrixGoLoadStop() }
}

unsafe extern "C" fn describe(out: *mut FILE) {
    // SAFETY: the driver's stream, and a format that fits the argument.
    unsafe {
        fprintf(out, c",\"external\":%lld".as_ptr(), matrixGoExternal());
    }
}

fn main() {
    let host = MatrixHost {
        profile_start: matrixGoProfileStart,
        profile_stop: matrixGoProfileStop,
        load_start,
        load_stop,
        health: Some(matrixGoHealth),
        describe: Some(describe),
    };
    let arguments: Vec<CString> = std::env::args().map(|a| CString::new(a).expect("arguments end in NUL")).collect();
    let pointers: Vec<*const c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    // SAFETY: all three live until the call returns.
    let status = unsafe { matrix_main(pointers.len() as c_int, pointers.as_ptr(), &host) };
    std::process::exit(status);
}
