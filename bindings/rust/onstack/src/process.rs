// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which process this is. Its id alone does not tell: in a PID namespace of its own the child of a process 1 is process 1
//! again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// A number that no process shares with those that it came from, however it was made. A child of vfork has its parent's
/// memory and another id.
pub fn number() -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    static WORD: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let id = u64::from(std::process::id());
    let Some(word) = WORD.get_or_init(wiped_word) else { return id };
    let mut mark = word.load(Ordering::Acquire);
    while mark == 0 {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        mark = word.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire).map_or_else(|found| found, |_| next);
    }
    u64::from(mark) << 32 | id
}

/// A word that the kernel sets to 0 in every child with a memory of its own; none before Linux 4.14.
#[cfg(target_os = "linux")]
fn wiped_word() -> Option<&'static AtomicU32> {
    const SIZE: usize = 4096;
    // SAFETY: a new mapping, of which nobody else knows; it is never given back once it is used.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let page = libc::mmap(std::ptr::null_mut(), SIZE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, SIZE);
            return None;
        }
        Some(&*page.cast::<AtomicU32>())
    }
}

#[cfg(not(target_os = "linux"))]
fn wiped_word() -> Option<&'static AtomicU32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Runs in a new process, of a PID namespace of its own where `namespace`; its exit status.
    fn in_child(namespace: libc::c_int, body: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child of a process with threads makes system calls alone, and ends.
        unsafe {
            let flags = libc::c_long::from(libc::SIGCHLD | namespace);
            let child = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
            if child == 0 {
                libc::_exit(body());
            }
            let mut status = 0;
            if child < 0 || libc::waitpid(child as libc::pid_t, &mut status, 0) < 0 || !libc::WIFEXITED(status) {
                return 77;
            }
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn a_child_has_another_number_whatever_its_id() {
        let ours = number();
        assert_eq!(ours, number());
        assert_eq!(in_child(0, || i32::from(number() != ours)), 1);
        let told = in_child(libc::CLONE_NEWPID, || {
            let (id, first) = (std::process::id(), number());
            in_child(libc::CLONE_NEWPID, || i32::from(std::process::id() == id && number() != first))
        });
        if told == 77 {
            println!("skip: no PID namespaces for us");
        } else {
            assert_eq!(told, 1);
        }
    }
}
