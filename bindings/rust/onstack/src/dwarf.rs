// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debug information of one file, read where it lies.
//!
//! The file is mapped, compressed sections are unpacked into pages of their own, and sections that say nothing about names
//! and lines are left alone: all of it goes back to the system when the [`Storage`] is dropped, whatever the allocator
//! keeps.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use addr2line::gimli::{self, AbbreviationsCacheStrategy, Dwarf, EndianSlice, NativeEndian, SectionId};
use addr2line::{Context, FrameIter, LookupContinuation, LookupResult};
use memmap2::{Mmap, MmapMut, UncheckedAdvice};
use object::{CompressionFormat, Object, ObjectSection, SymbolMap, SymbolMapName};
use typed_arena::Arena;

use crate::debug_file;
use crate::split::Split;

#[cfg(target_pointer_width = "64")]
pub(crate) type Elf<'a> = object::read::elf::ElfFile64<'a, object::NativeEndian>;
#[cfg(target_pointer_width = "32")]
pub(crate) type Elf<'a> = object::read::elf::ElfFile32<'a, object::NativeEndian>;

pub(crate) type Slice<'a> = EndianSlice<'a, NativeEndian>;

/// A section larger than this is not unpacked: its size comes from the file and may be anything.
const LARGEST_SECTION: u64 = 4 << 30;

/// What [`DebugInfo`] refers to.
#[derive(Default)]
pub(crate) struct Storage {
    files: Arena<Mmap>,
    unpacked: Arena<MmapMut>,
}

impl Storage {
    pub(crate) fn map(&self, path: &Path) -> Option<&Mmap> {
        let file = File::open(path).ok()?;
        // SAFETY: nobody writes to the files of loaded programs and libraries, nor to those of their debug information:
        // they are replaced. This process would not survive it if a loaded library were cut.
        Some(self.files.alloc(unsafe { Mmap::map(&file) }.ok()?))
    }

    /// The contents of a section; empty where it is missing or packed by a method that is not known here.
    pub(crate) fn section<'a>(&'a self, elf: &Elf<'a>, name: &str) -> Slice<'a> {
        let data = elf.section_by_name(name).and_then(|section| self.contents(&section));
        EndianSlice::new(data.unwrap_or_default(), NativeEndian)
    }

    fn contents<'a>(&'a self, section: &impl ObjectSection<'a>) -> Option<&'a [u8]> {
        let packed = section.compressed_data().ok()?;
        match packed.format {
            CompressionFormat::None => Some(packed.data),
            format => self.unpack(format, packed.data, packed.uncompressed_size),
        }
    }

    fn unpack(&self, format: CompressionFormat, data: &[u8], size: u64) -> Option<&[u8]> {
        if size == 0 || size > LARGEST_SECTION {
            return None;
        }
        let mut pages = MmapMut::map_anon(usize::try_from(size).ok()?).ok()?;
        match format {
            CompressionFormat::Zlib => flate2::read::ZlibDecoder::new(data).read_exact(&mut pages).ok()?,
            #[cfg(feature = "zstd")]
            CompressionFormat::Zstandard => {
                ruzstd::StreamingDecoder::new(data).ok()?.read_exact(&mut pages).ok()?;
            }
            _ => return None,
        }
        Some(&*self.unpacked.alloc(pages))
    }
}

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
        let path = debug_file::locate(path)?;
        let map = storage.map(&path)?;
        let elf = Elf::parse(&**map).ok()?;
        // Of what is read here: a name can be given to another file at any time.
        if build_id.is_some() && elf.build_id().ok()? != build_id {
            return None;
        }
        let mut dwarf = load(|id| storage.section(&elf, id.name()));
        if let Some(supplement) = debug_file::supplement(&path, &elf).and_then(|path| storage.map(&path)) {
            let supplement = Elf::parse(&**supplement).ok()?;
            dwarf.set_sup(load(|id| storage.section(&supplement, id.name())));
        }
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let context = Context::from_dwarf(dwarf).ok()?;
        // That touched each unit, hence most of the file; what is asked for next is little.
        // SAFETY: a mapping of a file that is only read: what is let go of is read again when it is needed.
        let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        Some(Self { context, elf, split: Split::new(&path, storage), symbols: OnceCell::new() })
    }

    /// The functions at an address in the file's own terms, the innermost inlined one first.
    pub(crate) fn frames(&self, address: u64) -> Option<FrameIter<'_, Slice<'a>>> {
        let mut result = self.context.find_frames(address);
        loop {
            match result {
                LookupResult::Output(frames) => return frames.ok(),
                LookupResult::Load { load, continuation } => result = continuation.resume(self.split.load(&load)),
            }
        }
    }

    /// The symbol that begins at the address or nearest before it; the address need not be a part of it.
    pub(crate) fn nearest_symbol(&self, address: u64) -> Option<&'a str> {
        self.symbols.get_or_init(|| self.elf.symbol_map()).get(address).map(SymbolMapName::name)
    }
}

/// The sections that tell names and lines. Those of variables and types are as large again, and packed ones would have to
/// be unpacked.
pub(crate) fn load<'a>(section: impl Fn(SectionId) -> Slice<'a>) -> Dwarf<Slice<'a>> {
    let wanted = |id| {
        let unwanted = matches!(
            id,
            SectionId::DebugLoc | SectionId::DebugLocLists | SectionId::DebugTypes | SectionId::DebugMacinfo
        );
        Ok::<_, gimli::Error>(if unwanted { EndianSlice::new(&[], NativeEndian) } else { section(id) })
    };
    Dwarf::load(wanted).unwrap_or_default()
}

/// Text of debug information.
pub(crate) fn text<'a>(slice: &Slice<'a>) -> Cow<'a, str> {
    slice.to_string_lossy()
}
