// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects that are loaded into this process.

use std::ffi::{c_int, c_void, CStr, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::slice;

/// How the executable is called here; right even after its file was replaced.
const EXECUTABLE: &str = "/proc/self/exe";

/// A loaded object.
pub(crate) struct Module {
    pub(crate) path: PathBuf,
    /// Address in the process less address in the file's own terms.
    pub(crate) bias: u64,
    executable: Vec<Range<u64>>,
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
    unsafe { libc::dl_iterate_phdr(Some(copy), (&mut modules as *mut Vec<Module>).cast()) };
    modules
}

/// Where the code of those loaded objects lies whose file's name contains one of `parts`.
pub(crate) fn code_of(parts: &[String]) -> Vec<Range<u64>> {
    let executable = std::env::current_exe().ok();
    let mut code = Vec::new();
    for module in loaded() {
        let path = if module.path == Path::new(EXECUTABLE) { executable.as_deref() } else { Some(&*module.path) };
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
    // SAFETY: the loader's name is NUL-terminated, and it says how many headers there are.
    let (name, headers) = unsafe {
        (CStr::from_ptr(info.dlpi_name).to_bytes(), slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()))
    };
    // The loader has no name for the executable.
    let path = if name.is_empty() { EXECUTABLE.as_bytes() } else { name };
    let bias = info.dlpi_addr;
    let executable = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0)
        .map(|header| {
            let start = bias.wrapping_add(header.p_vaddr);
            start..start.wrapping_add(header.p_memsz)
        })
        .collect();
    modules.push(Module { path: PathBuf::from(OsStr::from_bytes(path)), bias, executable });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_function_lies_in_the_executable_alone() {
        let address = this_function_lies_in_the_executable_alone as fn() as usize as u64;
        let holding: Vec<_> = loaded().into_iter().filter(|module| module.contains(address)).collect();
        assert_eq!(holding.len(), 1);
        assert_eq!(holding[0].path, PathBuf::from(EXECUTABLE));
    }

    #[test]
    fn code_is_found_by_a_part_of_the_files_name() {
        let libc = libc::getpid as *const () as u64;
        assert!(code_of(&["libc.so".into()]).iter().any(|range| range.contains(&libc)));
        assert!(code_of(&["/".into(), "no such library".into()]).is_empty());
    }
}
