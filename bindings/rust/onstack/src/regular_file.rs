// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens what names are read from. Its path may come out of a file that anybody made, and lead to a pipe, which would be
//! waited for, or to a device, which may act on being opened.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Nothing for what is no regular file.
pub(crate) fn open(path: &Path) -> Option<File> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()?;
    // It may have been replaced since.
    let is_regular = file.metadata().ok()?.is_file();
    is_regular.then_some(file)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore)] // its open knows no O_NONBLOCK
    fn only_regular_files_are_opened() {
        assert!(open(Path::new("Cargo.toml")).is_some());
        for other in ["/dev/null", "/", "/nowhere"] {
            assert!(open(Path::new(other)).is_none(), "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it makes no pipes
    fn nobody_waits_for_a_pipe() {
        let pipe = std::env::temp_dir().join(format!("onstack-pipe-{}", std::process::id()));
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that lives during the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let opened = open(&pipe);
        fs::remove_file(&pipe).unwrap();
        assert!(opened.is_none());
    }
}
