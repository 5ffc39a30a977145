// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information that lies beside the program: in a package (`program.dwp`, split-debuginfo=packed) or in a file for
//! each unit (`*.dwo`, unpacked).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::gimli::{Dwarf, DwarfPackage, EndianSlice, NativeEndian, SectionId};
use addr2line::SplitDwarfLoad;

use crate::elf::{self, Elf, Slice};
use crate::storage::Storage;

pub(crate) struct Split<'a> {
    storage: &'a Storage,
    package: Option<DwarfPackage<Slice<'a>>>,
}

impl<'a> Split<'a> {
    pub(crate) fn new(program: &Path, storage: &'a Storage) -> Self {
        // The running program goes by the name of a link.
        let real = std::fs::canonicalize(program);
        let package = real.ok().and_then(|program| open_package(&package_of(&program), storage));
        Self { storage, package }
    }

    /// What a unit of the program lacks; nothing when it is not there any more.
    pub(crate) fn load(&self, wanted: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        let packed = self.package.as_ref().and_then(|package| package.find_cu(wanted.dwo_id, &wanted.parent).ok()?);
        packed.or_else(|| self.load_file(wanted)).map(Arc::new)
    }

    fn load_file(&self, wanted: &SplitDwarfLoad<Slice<'a>>) -> Option<Dwarf<Slice<'a>>> {
        let mut path = wanted.comp_dir.as_ref().map_or_else(PathBuf::new, to_path);
        path.push(to_path(wanted.path.as_ref()?));
        let elf = Elf::parse(self.storage.read(&path)?).ok()?;
        let mut dwarf = elf::load(|id| self.storage.section(&elf, dwo_name(id)));
        let header = dwarf.units().next().ok()??;
        // A file of another build of the same source has the same name.
        if dwarf.unit(header).ok()?.dwo_id != Some(wanted.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&wanted.parent);
        Some(dwarf)
    }
}

fn open_package<'a>(path: &Path, storage: &'a Storage) -> Option<DwarfPackage<Slice<'a>>> {
    let elf = Elf::parse(storage.read(path)?).ok()?;
    let section = |id| Ok::<_, addr2line::gimli::Error>(storage.section(&elf, dwo_name(id)));
    DwarfPackage::load(section, EndianSlice::new(&[], NativeEndian)).ok()
}

/// `server.dwp` of `server`, `libserver.so.dwp` of `libserver.so`.
fn package_of(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".dwp");
    name.into()
}

/// A section that has no counterpart in split files has a name that none has.
fn dwo_name(id: SectionId) -> &'static str {
    id.dwo_name().unwrap_or("")
}

fn to_path(slice: &Slice<'_>) -> PathBuf {
    OsStr::from_bytes(slice.slice()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_lie_beside_the_program() {
        assert_eq!(package_of(Path::new("/srv/server")), Path::new("/srv/server.dwp"));
        assert_eq!(package_of(Path::new("/srv/libserver.so")), Path::new("/srv/libserver.so.dwp"));
    }
}
