// SPDX-License-Identifier: MIT OR Apache-2.0
//! ELF files of nothing but sections, for tests.

use object::elf;

pub(crate) struct Section {
    name: &'static str,
    kind: u32,
    flags: u32,
    data: Vec<u8>,
}

impl Section {
    pub(crate) fn of(name: &'static str, data: &[u8]) -> Self {
        Self { name, kind: elf::SHT_PROGBITS, flags: 0, data: data.to_vec() }
    }

    pub(crate) fn build_id(id: &[u8]) -> Self {
        let words = [4, id.len() as u32, elf::NT_GNU_BUILD_ID].map(u32::to_ne_bytes).concat();
        let data = [&words, &b"GNU\0"[..], id].concat();
        Self { name: ".note.gnu.build-id", kind: elf::SHT_NOTE, flags: 0, data }
    }

    /// Of `claimed` bytes, as its header says.
    pub(crate) fn packed(name: &'static str, data: &[u8], claimed: u64) -> Self {
        use std::io::Write;
        let mut packed = [elf::ELFCOMPRESS_ZLIB, 0].map(u32::to_ne_bytes).concat();
        packed.extend([claimed, 1].map(u64::to_ne_bytes).concat());
        let mut encoder = flate2::write::ZlibEncoder::new(packed, flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        Self { name, kind: elf::SHT_PROGBITS, flags: elf::SHF_COMPRESSED, data: encoder.finish().unwrap() }
    }
}

/// A file of 64 bits in this machine's order of bytes.
pub(crate) fn elf(sections: &[Section]) -> Vec<u8> {
    let mut names = vec![0];
    let mut file = vec![0; 64];
    let mut table = vec![0; 64];
    for section in sections {
        add(&mut file, &mut table, &mut names, section);
    }
    let last = Section { name: ".shstrtab", kind: elf::SHT_STRTAB, flags: 0, data: Vec::new() };
    let name = names.len();
    names.extend_from_slice(b".shstrtab\0");
    let of_names = names.clone();
    put_header(&mut table, name, &last, file.len(), of_names.len());
    file.extend(of_names);
    let (start, count) = (file.len() as u64, sections.len() as u16 + 2);
    file.extend(table);
    let ident = [0x7f, b'E', b'L', b'F', 2, if cfg!(target_endian = "little") { 1 } else { 2 }, 1];
    file[..7].copy_from_slice(&ident);
    file[40..48].copy_from_slice(&start.to_ne_bytes());
    for (at, value) in [(16, elf::ET_DYN), (52, 64), (58, 64), (60, count), (62, count - 1)] {
        file[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
    file[20..24].copy_from_slice(&1u32.to_ne_bytes());
    file
}

fn add(file: &mut Vec<u8>, table: &mut Vec<u8>, names: &mut Vec<u8>, section: &Section) {
    put_header(table, names.len(), section, file.len(), section.data.len());
    names.extend_from_slice(section.name.as_bytes());
    names.push(0);
    file.extend_from_slice(&section.data);
    file.resize(file.len().next_multiple_of(8), 0);
}

fn put_header(table: &mut Vec<u8>, name: usize, section: &Section, offset: usize, bytes: usize) {
    table.extend([name as u32, section.kind].map(u32::to_ne_bytes).concat());
    let words = [u64::from(section.flags), 0, offset as u64, bytes as u64, 0, 4, 0];
    table.extend(words.map(u64::to_ne_bytes).concat());
}
