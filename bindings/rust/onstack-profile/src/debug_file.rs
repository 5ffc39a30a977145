// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a file's debug information lies: in itself, or in a file of its own as distributions and release builds have it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::{Object, ReadCache};

use crate::storage::{open_regular, Elf, Header};

/// What reads a few headers of a file without mapping it.
type Headers<'a> = object::read::elf::ElfFile<'a, Header, &'a ReadCache<File>>;

/// Where distributions put debug files.
const ROOT: &str = "/usr/lib/debug";

/// The file that has the debug information for a program or library; nothing where there is none.
pub(crate) fn locate(path: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(open_regular(path)?);
    let file = Headers::parse(&cache).ok()?;
    if file.has_debug_symbols() || file.section_by_name(".debug_line").is_some() {
        return Some(path.to_owned());
    }
    let id = file.build_id().ok().flatten();
    let by_id = id.and_then(|id| Some((id, by_build_id(Path::new(ROOT), id)?)));
    if let Some((_, debug)) = by_id.filter(|(id, debug)| build_id_is(debug, id)) {
        return Some(debug);
    }
    let (name, _) = file.gnu_debuglink().ok().flatten()?;
    // The link names a file beside the real one, not beside a link to it.
    let real = fs::canonicalize(path).ok()?;
    let candidates = by_link(Path::new(ROOT), &real, OsStr::from_bytes(name));
    candidates.into_iter().find(|debug| *debug != real && fits(debug, id))
}

/// `/usr/lib/debug/.build-id/ab/cdef.debug`.
fn by_build_id(root: &Path, id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(root.join(".build-id").join(format!("{first:02x}")).join(rest + ".debug"))
}

/// Beside the file, in `.debug` beside it, and under the root by the file's own directory.
fn by_link(root: &Path, real: &Path, name: &OsStr) -> Vec<PathBuf> {
    let Some(directory) = real.parent() else { return Vec::new() };
    let below_root = root.join(directory.strip_prefix("/").unwrap_or(directory));
    vec![directory.join(name), directory.join(".debug").join(name), below_root.join(name)]
}

fn build_id_is(path: &Path, id: &[u8]) -> bool {
    let Some(file) = open_regular(path) else { return false };
    let cache = ReadCache::new(file);
    let Ok(file) = Headers::parse(&cache) else { return false };
    matches!(file.build_id(), Ok(Some(found)) if found == id)
}

/// A file that was found by its name alone may be of another build; without build ids nobody can tell.
fn fits(path: &Path, id: Option<&[u8]>) -> bool {
    id.map_or_else(|| path.is_file(), |id| build_id_is(path, id))
}

/// What several debug files share lies in one more file (dwz).
pub(crate) fn supplement(debug: &Path, file: &Elf<'_>) -> Option<PathBuf> {
    let (name, id) = file.gnu_debugaltlink().ok().flatten()?;
    let named = Path::new(OsStr::from_bytes(name));
    let beside = debug.parent().map(|directory| directory.join(named));
    beside.into_iter().chain(by_build_id(Path::new(ROOT), id)).find(|path| build_id_is(path, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf_maker::{elf, Section};

    #[test]
    fn the_places_are_those_of_the_debuggers() {
        let root = Path::new("/usr/lib/debug");
        let path = by_build_id(root, &[0xab, 0x0c, 0xff]);
        assert_eq!(path.unwrap(), Path::new("/usr/lib/debug/.build-id/ab/0cff.debug"));
        assert!(by_build_id(root, &[]).is_none());
        let places = by_link(root, Path::new("/usr/bin/app"), OsStr::new("app.debug"));
        let expected = ["/usr/bin/app.debug", "/usr/bin/.debug/app.debug", "/usr/lib/debug/usr/bin/app.debug"];
        assert_eq!(places, expected.map(PathBuf::from));
    }

    #[test]
    #[cfg_attr(miri, ignore)] // its open knows no O_NONBLOCK
    fn what_is_shared_is_told_by_its_build_id() {
        let directory = std::env::temp_dir().join(format!("onstack-supplement-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let shared = directory.join("shared.debug");
        std::fs::write(&shared, elf(&[Section::build_id(&[7; 20])])).unwrap();
        let found = |id| {
            let link = [b"shared.debug\0", &[id; 20][..]].concat();
            let debug = elf(&[Section::of(".gnu_debugaltlink", &link)]);
            supplement(&directory.join("library.debug"), &Elf::parse(&*debug).unwrap())
        };
        let (same, other) = (found(7), found(8));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((same, other), (Some(shared), None));
    }

    #[test]
    fn files_without_debug_information_have_none() {
        assert!(locate(Path::new("/dev/null")).is_none());
        assert!(locate(Path::new("/nowhere")).is_none());
    }
}
