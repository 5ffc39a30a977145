// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information of one program or library; sections that say nothing about names and lines are left alone.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::Path;

use addr2line::gimli::AbbreviationsCacheStrategy;
use addr2line::{Context, FrameIter, LookupContinuation, LookupResult};
use memmap2::UncheckedAdvice;
use object::{Object, SymbolMap, SymbolMapName};

use crate::debug_file;
use crate::elf::{load, Elf, Slice};
use crate::split::Split;
use crate::storage::Storage;

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
