// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the library lies that is preloaded into programs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[cfg(carries_preload)]
use crate::carried;
use crate::failure::Failure;
use crate::trust::{is_only_ours, NAME};

/// Where root installs it. On some systems a group may write to the first one.
const INSTALLED: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];

/// The library that is named, or the installed one, or the one beside this program, or the one that it carries.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = named {
        let found = path.canonicalize();
        return found.map_err(|error| Failure::new(path, format!("cannot be preloaded: {error}")));
    }
    let own = env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent);
    let prefix = own.and_then(Path::parent);
    let beside = prefix.map(|prefix| [prefix.join("lib"), prefix.join("lib/onstack")]).into_iter().flatten();
    let places = INSTALLED.iter().map(PathBuf::from).chain(beside).chain(own.map(Path::to_owned));
    first(places).unwrap_or_else(carried)
}

/// The library in the first place that has one, if nobody else may have put it there.
fn first(places: impl IntoIterator<Item = PathBuf>) -> Option<Result<PathBuf, Failure>> {
    let there = |place: PathBuf| Some((place.join(NAME).canonicalize().ok()?, place));
    let (library, place) = places.into_iter().find_map(there)?;
    if is_only_ours(&place) && is_only_ours(&library) {
        return Some(Ok(library));
    }
    let what = "is not loaded: others may write there. `--preload FILE` names one that you trust";
    Some(Err(Failure::new(&library, what)))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn installed_places_are_asked_as_those_beside_the_command() {
        let place = env::temp_dir().join(format!("onstack-preload-{}", std::process::id()));
        let installed = place.join("lib");
        fs::create_dir_all(&installed).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        let mut found = Vec::new();
        for (there, mode) in [(false, 0o777), (true, 0o755), (true, 0o775), (true, 0o777)] {
            fs::set_permissions(&installed, fs::Permissions::from_mode(mode)).unwrap();
            if there {
                fs::write(installed.join(NAME), "").unwrap();
                fs::set_permissions(installed.join(NAME), fs::Permissions::from_mode(0o644)).unwrap();
            }
            found.push(first([place.join("none"), installed.clone()]).map(|found| found.is_ok()));
        }
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(found, [None, Some(true), Some(false), Some(false)]);
    }
}
