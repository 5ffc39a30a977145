// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of signals while another program runs under this one.

use std::ffi::{c_int, c_void};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{mem, ptr};

/// The program that runs; 0: none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal that came before there was one; 0: none.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// From here on the program gets what is sent to this one, and what was sent while it was made.
pub fn attend(child: i32) {
    CHILD.store(child, Ordering::SeqCst);
    let signal = EARLY.swap(0, Ordering::SeqCst);
    if signal > 0 {
        pass_on(signal);
    }
}

/// It has been awaited: its number may be another's.
pub fn forget() {
    CHILD.store(0, Ordering::Relaxed);
}

/// Handlers and not SIG_IGN: the program would inherit that. It does inherit what is ignored already (nohup), and nobody
/// is to be told of such a signal.
pub fn stand_back(command: &mut Command) {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        if action(signal).sa_sigaction != libc::SIG_IGN {
            set(signal);
        }
    }
    if await_children() {
        let ignore = || {
            // SAFETY: allowed between fork and exec; sets no handler.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
            Ok(())
        };
        // SAFETY: as above.
        unsafe { command.pre_exec(ignore) };
    }
}

/// A parent may leave the ends of children ignored: the kernel forgets them then, and there is nothing to await. Returns
/// whether it did.
pub fn await_children() -> bool {
    // SAFETY: sets no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) == libc::SIG_IGN }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // What a terminal sends the program gets as well. It is the kernel that sends it: codes of processes are not above 0.
    // SAFETY: the information lives as long as the handler runs.
    let by_terminal = unsafe { (*info).si_code } > 0;
    if !by_terminal {
        pass_on(signal);
    }
}

fn pass_on(signal: c_int) {
    let child = CHILD.load(Ordering::SeqCst);
    if child > 0 {
        // SAFETY: sends a signal to the child, which has not been awaited yet; allowed in a signal handler.
        unsafe { libc::kill(child, signal) };
    } else {
        EARLY.store(signal, Ordering::SeqCst);
    }
}

fn set(signal: c_int) {
    let mut new = action(signal);
    new.sa_sigaction = handle as *const () as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler does nothing but what is allowed in one.
    unsafe { libc::sigaction(signal, &new, ptr::null_mut()) };
}

fn action(signal: c_int) -> libc::sigaction {
    let mut now = mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks for the action and changes none; all zeroes are one.
    unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init()
    }
}
