// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of debug information: files that are mapped or read, and sections that are unpacked. All of it lies in pages
//! of its own, which go back to the system when the [`Storage`] is dropped, whatever the allocator keeps.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::mem::size_of;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use addr2line::gimli::{EndianSlice, NativeEndian};
use memmap2::{Mmap, MmapMut};
use object::elf::SHF_COMPRESSED;
use object::read::elf::{ElfFile, FileHeader};
use object::{CompressionFormat, Object, ObjectSection, ReadCache, SectionFlags};
use typed_arena::Arena;

#[cfg(target_pointer_width = "64")]
pub(crate) type Header = object::elf::FileHeader64<object::NativeEndian>;
#[cfg(target_pointer_width = "32")]
pub(crate) type Header = object::elf::FileHeader32<object::NativeEndian>;

pub(crate) type Elf<'a> = object::read::elf::ElfFile<'a, Header>;

pub(crate) type Slice<'a> = EndianSlice<'a, NativeEndian>;

/// More is neither read into memory nor unpacked: sizes come from files and may be anything.
const MOST_BYTES: u64 = 512 << 20;

/// What debug information that was read refers to.
pub(crate) struct Storage {
    files: Arena<Mmap>,
    pages: Arena<MmapMut>,
    left: Cell<u64>,
}

impl Default for Storage {
    fn default() -> Self {
        Self { files: Arena::new(), pages: Arena::new(), left: Cell::new(MOST_BYTES) }
    }
}

impl Storage {
    /// Maps the file of a program or library itself. It is often the largest of all, and the pages of a mapping can be
    /// let go and had again.
    pub(crate) fn map(&self, path: &Path) -> Option<&Mmap> {
        let file = open_regular(path)?;
        // SAFETY: this holds as long as nobody writes to the file or cuts it. Whoever does that while code runs from it
        // breaks that code as well; for a program that is over it is SIGBUS here (docs/SECURITY.md).
        Some(self.files.alloc(unsafe { Mmap::map(&file) }.ok()?))
    }

    /// Reads a file that holds nothing but debug information: a build or an update may cut it at any time. What says
    /// nothing about names and lines is zero in the copy, and takes no memory.
    pub(crate) fn read(&self, path: &Path) -> Option<&[u8]> {
        let file = open_regular(path)?;
        let length = file.metadata().ok()?.len();
        let mut copy = MmapMut::map_anon(usize::try_from(length).ok()?).ok()?;
        for range in wanted_ranges(&file)? {
            self.charge(range.end.checked_sub(range.start)?)?;
            let place = copy.get_mut(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)?;
            file.read_exact_at(place, range.start).ok()?;
        }
        Some(&*self.pages.alloc(copy))
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
        self.charge(size)?;
        let mut pages = MmapMut::map_anon(usize::try_from(size).ok()?).ok()?;
        match format {
            CompressionFormat::Zlib => flate2::read::ZlibDecoder::new(data).read_exact(&mut pages).ok()?,
            #[cfg(feature = "zstd")]
            CompressionFormat::Zstandard => {
                ruzstd::StreamingDecoder::new(data).ok()?.read_exact(&mut pages).ok()?;
            }
            _ => return None,
        }
        Some(&*self.pages.alloc(pages))
    }

    fn charge(&self, bytes: u64) -> Option<()> {
        self.left.set(self.left.get().checked_sub(bytes)?);
        Some(())
    }
}

/// Header, section table and the sections that are looked at.
fn wanted_ranges(file: &File) -> Option<Vec<Range<u64>>> {
    let cache = ReadCache::new(file);
    let elf = ElfFile::<Header, _>::parse(&cache).ok()?;
    let table = elf.elf_header().e_shoff(elf.endian());
    let table_bytes = (elf.elf_section_table().len() * size_of::<<Header as FileHeader>::SectionHeader>()) as u64;
    let mut ranges = vec![0..size_of::<Header>() as u64, table..table.checked_add(table_bytes)?];
    for section in elf.sections() {
        let Some((offset, size)) = section.file_range() else { continue };
        if is_wanted(section.name_bytes().ok()?, section.flags()) {
            ranges.push(offset..offset.checked_add(size)?);
        }
    }
    Some(ranges)
}

/// Names and lines, what leads to them, and what tells builds apart.
fn is_wanted(name: &[u8], flags: SectionFlags) -> bool {
    const TABLES: [&[u8]; 3] = [b".symtab", b".strtab", b".shstrtab"];
    const WANTED: [&[u8]; 4] = [b".debug_", b".zdebug_", b".note", b".gnu_debug"];
    // Of packages they are asked for, though not read; packed ones without their header would be an error.
    const UNREAD: [&[u8]; 5] = [b".debug_loc", b".debug_types", b".debug_macro", b".debug_pub", b".debug_gnu_pub"];
    let is_packed = matches!(flags, SectionFlags::Elf { sh_flags } if sh_flags & u64::from(SHF_COMPRESSED) != 0);
    let begins = |beginnings: &[&[u8]]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    TABLES.contains(&name) || begins(&WANTED) && (is_packed || !begins(&UNREAD))
}

/// Opens what names are read from; nothing for what is no regular file. Its path may come out of a file that anybody made, and
/// lead to a pipe, which would be waited for, or to a device, which may act on being opened.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()?;
    // It may have been replaced since.
    let is_regular = file.metadata().ok()?.is_file();
    is_regular.then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf_maker::{elf, Section};

    fn sections(storage: &Storage, sections: &[Section]) -> (usize, usize) {
        let bytes = elf(sections);
        let elf = Elf::parse(&*bytes).unwrap();
        (storage.section(&elf, ".debug_info").len(), storage.section(&elf, ".debug_line").len())
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it has no pages
    fn what_is_unpacked_has_a_limit_in_all() {
        let both = [Section::packed(".debug_info", &[1; 3000], 3000), Section::packed(".debug_line", &[2; 3000], 3000)];
        assert_eq!(sections(&Storage::default(), &both), (3000, 3000));
        let small = Storage { left: Cell::new(5000), ..Storage::default() };
        assert_eq!(sections(&small, &both), (3000, 0));
        let bombs = [
            Section::packed(".debug_info", &[1; 3000], u64::MAX),
            Section::packed(".debug_line", &[2; 3000], MOST_BYTES + 1),
        ];
        assert_eq!(sections(&Storage::default(), &bombs), (0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_file_that_is_cut_later_stays_as_it_was() {
        let path = std::env::temp_dir().join(format!("onstack-cut-{}", std::process::id()));
        let sections = [
            Section::of(".debug_info", &[1; 5000]),
            Section::of(".debug_macro", &[2; 5000]),
            Section::of(".text", &[3; 5000]),
            Section::build_id(&[4; 20]),
        ];
        std::fs::write(&path, elf(&sections)).unwrap();
        let storage = Storage::default();
        let bytes = storage.read(&path);
        std::fs::write(&path, b"").unwrap();
        let empty = storage.read(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(empty.is_none());
        let elf = Elf::parse(bytes.unwrap()).unwrap();
        assert_eq!(elf.build_id().unwrap(), Some(&[4; 20][..]));
        assert_eq!(storage.section(&elf, ".debug_info").slice(), [1; 5000]);
        let unread = [".debug_macro", ".text"].map(|name| storage.section(&elf, name));
        assert!(unread.iter().all(|section| section.slice() == [0; 5000]));
        assert!((5000..8000).contains(&(MOST_BYTES - storage.left.get())));
    }

    #[test]
    #[cfg_attr(miri, ignore)] // its open knows no O_NONBLOCK
    fn only_regular_files_are_opened() {
        assert!(open_regular(Path::new("Cargo.toml")).is_some());
        for other in ["/dev/null", "/", "/nowhere"] {
            assert!(open_regular(Path::new(other)).is_none(), "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it makes no pipes
    fn nobody_waits_for_a_pipe() {
        let pipe = std::env::temp_dir().join(format!("onstack-pipe-{}", std::process::id()));
        let name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(pipe.as_os_str())).unwrap();
        // SAFETY: a string that lives during the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let opened = open_regular(&pipe);
        fs::remove_file(&pipe).unwrap();
        assert!(opened.is_none());
    }
}
