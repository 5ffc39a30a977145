// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the library lies that is preloaded into programs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

pub const NAME: &str = "libonstack-preload.so";

/// The library that is named, or the one that was installed with this program.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        let found = path.canonicalize();
        return found.map_err(|error| Failure::new(path, format!("cannot be preloaded: {error}")));
    }
    let own = env::current_exe().ok();
    let beside = own.iter().flat_map(|own| own.ancestors().skip(1).take(3));
    let places = beside.flat_map(|place| [place.join("lib"), place.join("lib/onstack"), place.to_owned()]);
    let system = ["/usr/local/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let mut places = places.chain(system.map(PathBuf::from));
    places.find_map(|place| place.join(NAME).canonicalize().ok()).ok_or_else(|| {
        let what =
            "is not installed; `make install` of onstack does it. `--preload FILE` names one that lies elsewhere";
        Failure::new(Path::new(NAME), what)
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
