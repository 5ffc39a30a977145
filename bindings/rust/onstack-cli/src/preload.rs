// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the library lies that is preloaded into programs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[cfg(carries_preload)]
use crate::carried;
use crate::failure::Failure;
use crate::trust::{is_only_ours, NAME};

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
