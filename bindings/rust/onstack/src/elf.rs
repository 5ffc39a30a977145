// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words for files and sections with debug information, as the crates that read them have them.

use addr2line::gimli::{self, Dwarf, EndianSlice, NativeEndian, SectionId};

#[cfg(target_pointer_width = "64")]
pub(crate) type Header = object::elf::FileHeader64<object::NativeEndian>;
#[cfg(target_pointer_width = "32")]
pub(crate) type Header = object::elf::FileHeader32<object::NativeEndian>;

pub(crate) type Elf<'a> = object::read::elf::ElfFile<'a, Header>;

pub(crate) type Slice<'a> = EndianSlice<'a, NativeEndian>;

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
