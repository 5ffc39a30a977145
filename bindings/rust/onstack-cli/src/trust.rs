// SPDX-License-Identifier: MIT OR Apache-2.0
//! From where a library is loaded into programs of this user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub const NAME: &str = "libonstack-preload.so";

/// Nobody but root and this user can put something else at this path: what is loaded runs as this user.
pub fn is_only_ours(path: &Path) -> bool {
    // SAFETY: asks for a number.
    let own = unsafe { libc::geteuid() };
    let Ok(path) = path.canonicalize() else { return false };
    path.ancestors().enumerate().all(|(depth, place)| {
        fs::metadata(place).is_ok_and(|there| {
            let others_write = there.mode() & 0o022 != 0;
            // In a directory like /tmp the names of what is ours stay ours; new ones may come.
            let sticky = depth > 0 && there.mode() & 0o1000 != 0;
            [0, own].contains(&there.uid()) && (!others_write || sticky)
        })
    })
}
