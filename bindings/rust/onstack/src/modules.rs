// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects that are loaded into this process.

use std::ffi::{c_int, c_void, CStr, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, mem, ptr};

use object::elf;
use object::read::elf::NoteIterator;

use crate::elf::Header;
use crate::{loader, memory};

type ProgramHeader = libc::Elf64_Phdr;

/// The link to the executable's file, which is right even after the file was renamed. `/proc/self` is the directory of the
/// first thread: in a C program that thread may have ended before the others, and then only the latter link is there.
fn executable() -> &'static str {
    let links = ["/proc/self/exe", "/proc/thread-self/exe"];
    links.into_iter().find(|link| fs::read_link(link).is_ok()).unwrap_or(links[0])
}

/// Bytes of a note segment that are searched for a build id; linkers write some hundred.
const MOST_NOTES: u64 = 65536;

/// A loaded object.
pub(crate) struct Module {
    pub(crate) path: PathBuf,
    /// Address in the process less address in the file's own terms.
    pub(crate) bias: u64,
    /// Of the code that runs, whatever lies at the path now.
    pub(crate) build_id: Option<Vec<u8>>,
    pub(crate) executable: Vec<Range<u64>>,
}

impl Module {
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.executable.iter().any(|range| range.contains(&address))
    }
}

/// All objects loaded now.
pub(crate) fn loaded() -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    // SAFETY: the callback fits its data, and the vector outlives the call.
    unsafe { loader::each(copy, (&mut modules as *mut Vec<Module>).cast()) };
    // The loader has no name for the executable.
    for module in modules.iter_mut().filter(|module| module.path.as_os_str().is_empty()) {
        module.path = PathBuf::from(executable());
    }
    modules
}

/// Where the code of those loaded objects lies whose file's name contains one of `parts`.
pub(crate) fn code_of(parts: &[String]) -> Vec<Range<u64>> {
    let link = Path::new(executable());
    let executable = fs::read_link(link).ok();
    let mut code = Vec::new();
    for module in loaded() {
        let path = if module.path == link { executable.as_deref() } else { Some(&*module.path) };
        // The name alone: `libc` means the library, not what lies below some /srv/libc/.
        let name = path.and_then(Path::file_name).map(OsStr::to_string_lossy);
        if name.is_some_and(|name| parts.iter().any(|part| name.contains(part.as_str()))) {
            code.extend(module.executable);
        }
    }
    code
}

/// Only copies: the loader holds its lock meanwhile.
unsafe extern "C" fn copy(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader's structure, and the vector given by `loaded`.
    let (info, modules) = unsafe { (&*info, &mut *data.cast::<Vec<Module>>()) };
    if info.dlpi_phdr.is_null() || info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's name is NUL-terminated.
    let name = unsafe { CStr::from_ptr(info.dlpi_name).to_bytes() };
    let headers = headers_at(info.dlpi_phdr as u64, info.dlpi_phnum.into());
    let bias = info.dlpi_addr;
    let executable = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0)
        .map(|header| {
            let start = bias.wrapping_add(header.p_vaddr);
            start..start.wrapping_add(header.p_memsz)
        })
        .collect();
    let build_id = build_id(bias, &headers);
    modules.push(Module { path: PathBuf::from(OsStr::from_bytes(name)), bias, build_id, executable });
    0
}

/// A copy of an object's program headers. They lie in its file's first page, and a load from a page of a file that was truncated
/// ends the process.
fn headers_at(address: u64, count: usize) -> Vec<ProgramHeader> {
    let size = mem::size_of::<ProgramHeader>();
    // SAFETY: each piece has the size of a header, which any bytes are.
    let header = |piece: &[u8]| unsafe { ptr::read_unaligned(piece.as_ptr().cast::<ProgramHeader>()) };
    memory::copy(address, count * size).chunks_exact(size).map(header).collect()
}

fn build_id(bias: u64, headers: &[ProgramHeader]) -> Option<Vec<u8>> {
    let is_mapped = |note: &&ProgramHeader| headers.iter().any(|load| is_within(note, load));
    headers.iter().filter(|header| header.p_type == libc::PT_NOTE).filter(is_mapped).find_map(|note| {
        let notes = memory::copy(bias.wrapping_add(note.p_vaddr), note.p_filesz.min(MOST_NOTES) as usize);
        gnu_build_id(&notes, note.p_align)
    })
}

fn is_within(note: &ProgramHeader, load: &ProgramHeader) -> bool {
    let readable = load.p_type == libc::PT_LOAD && load.p_flags & libc::PF_R != 0;
    let before = note.p_vaddr.checked_sub(load.p_vaddr);
    readable && before.and_then(|before| before.checked_add(note.p_filesz)).is_some_and(|end| end <= load.p_filesz)
}

fn gnu_build_id(notes: &[u8], alignment: u64) -> Option<Vec<u8>> {
    let mut notes = NoteIterator::<Header>::new(object::NativeEndian, alignment, notes).ok()?;
    while let Some(note) = notes.next().ok()? {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(object::NativeEndian) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_function_lies_in_the_executable_alone() {
        let address = this_function_lies_in_the_executable_alone as fn() as usize as u64;
        let holding: Vec<_> = loaded().into_iter().filter(|module| module.contains(address)).collect();
        assert_eq!(holding.len(), 1);
        assert_eq!(holding[0].path, PathBuf::from(executable()));
    }

    #[test]
    fn the_build_id_is_that_of_the_file() {
        use object::Object;
        let bytes = fs::read(executable()).unwrap();
        let file = object::read::elf::ElfFile::<Header>::parse(&*bytes).unwrap();
        let executable = loaded().into_iter().find(|module| module.path == Path::new(executable())).unwrap();
        assert_eq!(executable.build_id.as_deref(), file.build_id().unwrap());
    }

    #[test]
    fn code_is_found_by_a_part_of_the_files_name() {
        let libc = libc::getpid as *const () as u64;
        assert!(code_of(&["libc.so".into()]).iter().any(|range| range.contains(&libc)));
        assert!(code_of(&["/".into(), "no such library".into()]).is_empty());
    }
}
