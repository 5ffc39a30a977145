// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files for the user: made as the preloaded library makes its own (core/preload/new_file.h). For the command, and no part
//! of this crate's interface.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Puts a file with these bytes and mode 0600 in the place of what is there, or leaves that as it is.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    check(path)?;
    let mut new = New::beside(path)?;
    new.file.write_all(bytes)?;
    // Some file systems (NFS, quotas) tell a write's failure only here; and a crash must not leave the name without bytes.
    new.file.sync_all()?;
    fs::rename(&new.path, path)
}

/// Refuses what is there and no regular file. A link planted after this look is replaced, not followed.
pub fn check(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => {
            Err(Error::new(ErrorKind::AlreadyExists, "it is a symbolic link, which is not followed"))
        }
        Ok(there) if there.is_dir() => Err(Error::from_raw_os_error(libc::EISDIR)),
        Ok(there) if !there.is_file() => Err(Error::new(ErrorKind::AlreadyExists, "it is not a regular file")),
        _ => Ok(()),
    }
}

/// A name in the same directory, so that a rename stays in one file system, that nobody can take beforehand: the
/// hasher's keys are the kernel's random numbers.
pub fn name_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".onstack-{:016x}", RandomState::new().build_hasher().finish()))
}

/// Goes with this value, unless it has got another name.
struct New {
    path: PathBuf,
    file: File,
}

impl New {
    fn beside(path: &Path) -> Result<Self> {
        let path = name_beside(path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).mode(0o600);
        let file = options.open(&path)?;
        let new = Self { path, file };
        // A umask takes bits away; some file systems have none to give.
        let _ = new.file.set_permissions(Permissions::from_mode(0o600));
        Ok(new)
    }
}

impl Drop for New {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
