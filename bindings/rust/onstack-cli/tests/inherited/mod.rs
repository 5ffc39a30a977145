// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a command finds when it starts.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// For this signal.
pub fn under(command: &mut Command, signal: i32, action: libc::sighandler_t) -> &mut Command {
    let set = move || {
        // SAFETY: allowed between fork and exec; sets no handler.
        unsafe { libc::signal(signal, action) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(set) }
}
