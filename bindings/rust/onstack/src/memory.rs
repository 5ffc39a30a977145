// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of this process that may not be there: the kernel copies it, so nothing faults.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Copies at most `size` bytes. Returns those from the address on that are there: none of a page of a file that was truncated.
pub(crate) fn copy(address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let got = read_by_call(address, &mut bytes).unwrap_or_else(|| read_by_file(address, &mut bytes));
    bytes.truncate(got);
    bytes
}

/// `None`: the system refuses the call.
fn read_by_call(address: u64, bytes: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the kernel writes at most `bytes.len()` bytes into `bytes`. The calling thread's id names this process even after
    // the first thread has ended.
    let got = unsafe {
        let thread = libc::syscall(libc::SYS_gettid) as libc::pid_t;
        libc::process_vm_readv(thread, &local, 1, &remote, 1, 0)
    };
    match usize::try_from(got) {
        Ok(got) => Some(got),
        Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => Some(0),
        Err(_) => None,
    }
}

fn read_by_file(address: u64, bytes: &mut [u8]) -> usize {
    File::open("/proc/thread-self/mem").and_then(|memory| memory.read_at(bytes, address)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_copied_by_both_ways() {
        let text = *b"some bytes of this process";
        let address = text.as_ptr() as u64;
        assert_eq!(copy(address, text.len()), text);
        let mut bytes = text.map(|_| 0);
        assert_eq!(read_by_file(address, &mut bytes), text.len());
        assert_eq!(bytes, text);
    }

    #[test]
    fn a_page_of_a_truncated_file_is_not_there() {
        let path = std::env::temp_dir().join(format!("onstack-memory-{}", std::process::id()));
        std::fs::write(&path, [1; 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // SAFETY: a new mapping, which nobody loads from.
        let mapped = unsafe { memmap2::Mmap::map(&file).unwrap() };
        assert_eq!(copy(mapped.as_ptr() as u64, 16), [1; 16]);
        file.set_len(0).unwrap();
        assert!(copy(mapped.as_ptr() as u64, 16).is_empty());
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        assert!(copy(4096, 64).is_empty());
        assert_eq!(read_by_file(4096, &mut [0; 64]), 0);
    }
}
