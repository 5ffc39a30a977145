// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information of one program or library; sections that say nothing about names and lines are left alone. It may lie
//! beside the program: in a package (`program.dwp`, split-debuginfo=packed) or in a file for each unit (`*.dwo`, unpacked).

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::gimli::{self, AbbreviationsCacheStrategy, Dwarf, DwarfPackage, EndianSlice, NativeEndian, SectionId};
use addr2line::{Context, FrameIter, LookupContinuation, LookupResult, SplitDwarfLoad};
use memmap2::UncheckedAdvice;
use object::{Object, SymbolMap, SymbolMapName};

use crate::debug_file;
use crate::storage::{Elf, Slice, Storage};

/// Names, files, lines and inlined functions of one program or library.
pub(crate) struct DebugInfo<'a> {
    context: Context<Slice<'a>>,
    elf: Elf<'a>,
    split: Split<'a>,
    symbols: OnceCell<SymbolMap<SymbolMapName<'a>>>,
}

impl<'a> DebugInfo<'a> {
    /// Nothing for a file that cannot be read or has no debug information to offer, nor for one of another build than
    /// `build_id`.
    pub(crate) fn open(path: &Path, build_id: Option<&[u8]>, storage: &'a Storage) -> Option<Self> {
        let place = debug_file::locate(path)?;
        let map = if place == path { Some(storage.map(path)?) } else { None };
        let bytes = map.map_or_else(|| storage.read(&place), |map| Some(&**map))?;
        let elf = Elf::parse(bytes).ok()?;
        // Of what is read here: a name can be given to another file at any time.
        if build_id.is_some() && elf.build_id().ok()? != build_id {
            return None;
        }
        let mut dwarf = load(|id| storage.section(&elf, id.name()));
        if let Some(supplement) = debug_file::supplement(&place, &elf).and_then(|path| storage.read(&path)) {
            let supplement = Elf::parse(supplement).ok()?;
            dwarf.set_sup(load(|id| storage.section(&supplement, id.name())));
        }
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let context = Context::from_dwarf(dwarf).ok()?;
        // That touched each unit, hence most of the file; what is asked for next is little.
        // SAFETY: a mapping of a file that is only read: what is let go of is read again when it is needed.
        let _ = map.map(|map| unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) });
        Some(Self { context, elf, split: Split::new(&place, storage), symbols: OnceCell::new() })
    }

    /// The functions at an address in the file's own terms, the innermost inlined one first.
    pub(crate) fn frames(&self, address: u64) -> Option<FrameIter<'_, Slice<'a>>> {
        let mut result = self.context.find_frames(address);
        loop {
            match result {
                LookupResult::Output(frames) => return frames.ok(),
                LookupResult::Load { load, continuation } => {
                    // The table of lines is read once for each unit, and addr2line would read it by the sections of the
                    // unit's own file. These lack the names that DWARF 5 keeps beside the table (.debug_line_str).
                    let _ = self.context.find_location(address);
                    result = continuation.resume(self.split.load(&load));
                }
            }
        }
    }

    /// The symbol that begins at the address or nearest before it; the address need not be a part of it.
    pub(crate) fn nearest_symbol(&self, address: u64) -> Option<&'a str> {
        self.symbols.get_or_init(|| self.elf.symbol_map()).get(address).map(SymbolMapName::name)
    }
}

/// Text of debug information.
pub(crate) fn text<'a>(slice: &Slice<'a>) -> Cow<'a, str> {
    slice.to_string_lossy()
}

/// The sections that tell names and lines. Those of variables and types are as large again, and packed ones would have to
/// be unpacked.
fn load<'a>(section: impl Fn(SectionId) -> Slice<'a>) -> Dwarf<Slice<'a>> {
    let wanted = |id| {
        let unwanted = matches!(
            id,
            SectionId::DebugLoc | SectionId::DebugLocLists | SectionId::DebugTypes | SectionId::DebugMacinfo
        );
        Ok::<_, gimli::Error>(if unwanted { EndianSlice::new(&[], NativeEndian) } else { section(id) })
    };
    Dwarf::load(wanted).unwrap_or_default()
}

struct Split<'a> {
    storage: &'a Storage,
    package: Option<DwarfPackage<Slice<'a>>>,
}

impl<'a> Split<'a> {
    fn new(program: &Path, storage: &'a Storage) -> Self {
        // The running program goes by the name of a link.
        let real = std::fs::canonicalize(program);
        let package = real.ok().and_then(|program| open_package(&package_of(&program), storage));
        Self { storage, package }
    }

    /// What a unit of the program lacks; nothing when it is not there any more.
    fn load(&self, wanted: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        let packed = self.package.as_ref().and_then(|package| package.find_cu(wanted.dwo_id, &wanted.parent).ok()?);
        packed.or_else(|| self.load_file(wanted)).map(Arc::new)
    }

    fn load_file(&self, wanted: &SplitDwarfLoad<Slice<'a>>) -> Option<Dwarf<Slice<'a>>> {
        let mut path = wanted.comp_dir.as_ref().map_or_else(PathBuf::new, to_path);
        path.push(to_path(wanted.path.as_ref()?));
        let elf = Elf::parse(self.storage.read(&path)?).ok()?;
        let mut dwarf = load(|id| self.storage.section(&elf, dwo_name(id)));
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
    let section = |id| Ok::<_, gimli::Error>(storage.section(&elf, dwo_name(id)));
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
