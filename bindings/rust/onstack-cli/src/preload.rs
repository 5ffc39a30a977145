// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the library lies that is preloaded into programs.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[cfg(carries_preload)]
use crate::carried;
use crate::failure::Failure;

pub const NAME: &str = "libonstack-preload.so";

/// What root has installed.
const INSTALLED: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];

/// The library that is named, or the installed one, or the one beside this program, or the one that it carries.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        let found = path.canonicalize();
        return found.map_err(|error| Failure::new(path, format!("cannot be preloaded: {error}")));
    }
    if let Some(installed) = INSTALLED.iter().find_map(|place| Path::new(place).join(NAME).canonicalize().ok()) {
        return Ok(installed);
    }
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent);
    let prefix = own.and_then(Path::parent);
    let places = prefix.map(|prefix| [prefix.join("lib"), prefix.join("lib/onstack")]).into_iter().flatten();
    for place in places.chain(own.map(Path::to_owned)) {
        let Ok(library) = place.join(NAME).canonicalize() else { continue };
        if is_only_ours(&place) && is_only_ours(&library) {
            return Ok(library);
        }
        let what = "is not loaded: others may write there. `--preload FILE` names one that you trust";
        return Err(Failure::new(&library, what));
    }
    carried()
}

#[cfg(carries_preload)]
fn carried() -> Result<PathBuf, Failure> {
    carried::unpack()
}

#[cfg(not(carries_preload))]
fn carried() -> Result<PathBuf, Failure> {
    let what = "is not installed; `make install` of onstack does it. `--preload FILE` names one that lies elsewhere";
    Err(Failure::new(Path::new(NAME), what))
}

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

/// The value of `LD_PRELOAD`: ours first, what was there behind it.
pub fn variable(library: &Path) -> Result<OsString, Failure> {
    // The loader splits at both and knows no quotes.
    if library.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::new(library, "cannot be preloaded: the loader takes no path with a space or colon in it"));
    }
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    Ok(value)
}
