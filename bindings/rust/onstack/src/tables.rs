// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unwind tables that are kept from one process to the next.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use onstack_sys as sys;

/// Keeps the unwind tables of large libraries in files of a directory, by build id, and takes those that an earlier process has
/// left there: a program with LLVM inside spares 30 ms at each start. Tables from less than 64 KiB of .eh_frame are made anew.
/// What does not belong to this user or root, or others may write, is not believed; files may be removed at any time. For the
/// whole process, before its first profiler; `None`: no more. Experimental.
///
/// # Errors
/// The system's: there is no such directory; of kind [`io::ErrorKind::PermissionDenied`] also where others may write to it.
pub fn keep_tables_in(directory: Option<&Path>) -> io::Result<()> {
    let name = directory.map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?;
    // SAFETY: a string that ends, or null; one call at a time is what the core needs of a start, and it stores one pointer.
    let code = unsafe { sys::onstack_tables_keep_in(name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr())) };
    if code < 0 {
        Err(io::Error::from_raw_os_error(-code))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::Path;

    use super::keep_tables_in;

    #[test]
    fn only_where_nobody_else_may_write() {
        assert_eq!(keep_tables_in(Some(Path::new("/nowhere/at/all"))).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(keep_tables_in(Some(Path::new("/tmp"))).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(keep_tables_in(Some(Path::new("a\0b"))).unwrap_err().kind(), ErrorKind::InvalidInput);
        keep_tables_in(None).unwrap();
    }
}
