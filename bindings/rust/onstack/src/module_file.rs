// SPDX-License-Identifier: MIT OR Apache-2.0
//! Under which name the file of a loaded object lies, and whether what has that name now can still be it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};
use std::{fs, str};

use crate::modules::Module;

/// A line of the kernel's list of mappings.
struct Mapped {
    range: Range<u64>,
    inode: u64,
    path: PathBuf,
    is_code: bool,
}

/// What tells a file from another one, and from itself when it was written over.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self { inode: file.ino(), bytes: file.size(), modified: (file.mtime(), file.mtime_nsec()) })
    }
}

/// Files by the kernel's name and inode, as they were when they were first seen mapped: the list of mappings has the inode
/// alone, which a file keeps when it is written over.
static SEEN: Mutex<BTreeMap<(PathBuf, u64), Stamp>> = Mutex::new(BTreeMap::new());

/// Of more files it is not known whether they are written over.
const MOST_SEEN: usize = 4096;

fn first_stamp(mapped: &Mapped, now: Stamp) -> Stamp {
    let mut seen = match SEEN.try_lock() {
        Ok(seen) => seen,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Perhaps of a thread that a fork left behind: nobody is to wait for it.
        Err(TryLockError::WouldBlock) => return now,
    };
    let file = (mapped.path.clone(), mapped.inode);
    if seen.len() < MOST_SEEN {
        return *seen.entry(file).or_insert(now);
    }
    seen.get(&file).copied().unwrap_or(now)
}

/// Remembers what the mapped files are like, before there are samples in them.
pub(crate) fn note() {
    note_all(&own_maps());
}

/// The kernel's list of this process's mappings. `/proc/self` is the directory of the first thread: in a C program that thread
/// may have ended before the others, and then the list is empty there, and whole in `/proc/thread-self` (Linux 3.17).
fn own_maps() -> Vec<u8> {
    let mut lists = ["/proc/self/maps", "/proc/thread-self/maps"].iter().filter_map(|path| fs::read(path).ok());
    lists.find(|list| !list.is_empty()).unwrap_or_default()
}

fn note_all(maps: &[u8]) {
    for mapped in maps.split(|&byte| byte == b'\n').filter_map(parse).filter(|mapped| mapped.is_code) {
        if let Some(now) = Stamp::of(&mapped.path).filter(|now| now.inode == mapped.inode) {
            first_stamp(&mapped, now);
        }
    }
}

/// A name to look for the module's debug information by. Whether the file has the module's build id is for the reader of
/// the file to say; a module without one is believed only while the name leads to the very file that was seen mapped.
pub(crate) fn of(module: &Module) -> Option<PathBuf> {
    if module.build_id.is_some() && module.path.is_absolute() {
        return Some(module.path.clone());
    }
    of_mapped(module, &own_maps())
}

fn of_mapped(module: &Module, maps: &[u8]) -> Option<PathBuf> {
    let mapped = mapped_at(maps, module.executable.first()?.start)?;
    // What the loader calls by a relative name is elsewhere after a chdir; the kernel knows the whole one.
    let path = if module.path.is_absolute() { module.path.clone() } else { mapped.path.clone() };
    let is_same = |now: Stamp| now.inode == mapped.inode && first_stamp(&mapped, now) == now;
    (module.build_id.is_some() || Stamp::of(&path).is_some_and(is_same)).then_some(path)
}

fn mapped_at(maps: &[u8], address: u64) -> Option<Mapped> {
    let mut lines = maps.split(|&byte| byte == b'\n').filter_map(parse);
    lines.find(|mapped| mapped.range.contains(&address))
}

/// Nothing for a mapping of no file.
fn parse(line: &[u8]) -> Option<Mapped> {
    let path = &line[line.iter().position(|&byte| byte == b'/')?..];
    let mut words = str::from_utf8(&line[..line.len() - path.len()]).ok()?.split_ascii_whitespace();
    let (start, limit) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_code = words.next()?.contains('x');
    let inode = words.nth(2)?.parse().ok()?;
    Some(Mapped { range: number(start)?..number(limit)?, inode, path: OsStr::from_bytes(path).into(), is_code })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_mapping_of_an_address() {
        let maps = b"7f00-7f10 r--p 00000000 08:01 12 /srv/a b.so\n7f10-7f20 rw-p 00000000 00:00 0\n\
                     7f20-7f30 r-xp 00000000 00:00 0                          [vdso]\n7f30-7f40 r-xp 0 08:01 13   /x\xff\n";
        let found = mapped_at(maps, 0x7f0f).unwrap();
        assert_eq!((found.inode, &*found.path), (12, Path::new("/srv/a b.so")));
        assert_eq!(mapped_at(maps, 0x7f30).unwrap().path.as_os_str().as_bytes(), b"/x\xff");
        for nowhere in [0, 0x7f10, 0x7f20, 0x7f40] {
            assert!(mapped_at(maps, nowhere).is_none(), "{nowhere:x}");
        }
    }

    /// The C library, under other names and with or without its build id.
    fn libc_as(path: Option<&str>, has_id: bool) -> Module {
        let function = libc::getpid as *const () as u64;
        let mut module = crate::modules::loaded().into_iter().find(|module| module.contains(function)).unwrap();
        module.build_id = module.build_id.filter(|_| has_id).or_else(|| has_id.then(|| vec![1]));
        if let Some(path) = path {
            module.path = path.into();
        }
        module
    }

    #[test]
    fn a_relative_name_is_completed_and_never_opened_as_it_is() {
        let whole = of(&libc_as(Some("Cargo.toml"), true)).unwrap();
        assert!(whole.is_absolute() && whole.ends_with(libc_as(None, true).path.file_name().unwrap()), "{whole:?}");
    }

    /// The C library's code as if it had come from that file.
    fn mapped_from(path: &Path) -> (Module, Vec<u8>) {
        let module = libc_as(Some(path.to_str().unwrap()), false);
        let (start, inode) = (module.executable[0].start, fs::metadata(path).unwrap().ino());
        let line = format!("{start:x}-{:x} r-xp 0 08:01 {inode} {}\n", start + 0x1000, path.display());
        (module, line.into_bytes())
    }

    #[test]
    fn without_a_build_id_the_file_names_nothing_once_it_is_written_over() {
        let path = std::env::temp_dir().join(format!("onstack-seen-{}", std::process::id()));
        fs::write(&path, b"as it was").unwrap();
        let (module, maps) = mapped_from(&path);
        note_all(&maps);
        assert_eq!(of_mapped(&module, &maps).as_deref(), Some(&*path));
        // Files' times are as coarse as the kernel's ticks.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&path, b"as it is.").unwrap();
        let (_, after) = mapped_from(&path);
        assert_eq!(after, maps, "the same file to the kernel");
        assert_eq!(of_mapped(&module, &maps), None);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn without_a_build_id_the_name_must_lead_to_the_mapped_file() {
        assert!(of(&libc_as(None, false)).is_some());
        assert!(of(&libc_as(Some("/proc/self/exe"), false)).is_none());
        assert!(of(&libc_as(Some("/nowhere"), false)).is_none());
    }
}
