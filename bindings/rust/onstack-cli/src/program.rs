// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a program can be profiled through a preloaded library, told before it is started: the loader itself says
//! nothing when it leaves a preload out.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, fs, io, ptr};

use crate::failure::Failure;

const NOT_FOUND: u8 = 127;
const CANNOT: u8 = 126;

/// The file that `name` means, as a shell looks it up.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        return if path.exists() {
            Ok(path.to_owned())
        } else {
            Err(Failure::of_program(path, NOT_FOUND, "no such file"))
        };
    }
    let places = env::var_os("PATH").unwrap_or_default();
    let runnable = |candidate: &PathBuf| {
        fs::metadata(candidate).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = env::split_paths(&places).map(|place| place.join(path)).find(runnable);
    found.ok_or_else(|| Failure::of_program(path, NOT_FOUND, "no such program in PATH"))
}

/// Refuses what a preload cannot reach, with the reason.
pub fn check(path: &Path) -> Result<(), Failure> {
    check_file(path, 0).map_err(|what| Failure::of_program(path, CANNOT, what))
}

fn check_file(path: &Path, depth: u32) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot read: {error}");
    let metadata = fs::metadata(path).map_err(cannot)?;
    let mode = metadata.permissions().mode();
    if !metadata.is_file() || mode & 0o111 == 0 {
        return Err("is no program: an executable file is expected".into());
    }
    if mode & 0o6000 != 0 {
        return Err(
            "is set-user-ID or set-group-ID: the loader preloads nothing into it. Profile a copy without these \
                    bits"
                .into(),
        );
    }
    if gains_capabilities(path) {
        return Err(
            "has file capabilities: the loader preloads nothing into it. Profile a copy: `cp` leaves them out".into()
        );
    }
    let mut file = File::open(path).map_err(cannot)?;
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(256).read_to_end(&mut head).map_err(cannot)?;
    if let Some(script) = head.strip_prefix(b"#!") {
        if depth == 4 {
            return Err("is a script of scripts without end".into());
        }
        return check_file(&interpreter(script)?, depth + 1);
    }
    check_elf(&file, &head)
}

/// The kernel tells the loader of them for every user but root, to whom they give nothing.
fn gains_capabilities(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: asks for a number.
    let is_root = unsafe { libc::getuid() } == 0;
    // SAFETY: two strings that live during the call; without a place for the value it returns the size.
    let bytes = unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), ptr::null_mut(), 0) };
    !is_root && bytes > 0
}

/// The program that runs a script; of `env` what it looks up.
fn interpreter(line: &[u8]) -> Result<PathBuf, String> {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = words.next().ok_or("is a script that names no interpreter")?;
    let path = PathBuf::from(OsStr::from_bytes(first));
    match words.find(|word| !word.starts_with(b"-") && !word.contains(&b'=')) {
        Some(name) if path.file_name() == Some(OsStr::new("env")) => {
            find(OsStr::from_bytes(name)).map_err(|_| format!("needs {}, which is not in PATH", name.escape_ascii()))
        }
        _ => Ok(path),
    }
}

const PT_INTERP: u32 = 3;

fn check_elf(file: &File, head: &[u8]) -> Result<(), String> {
    let word = |offset: usize| head.get(offset..offset + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    if !head.starts_with(b"\x7fELF") || head.len() < 64 {
        return Err("is neither an ELF program nor a script".into());
    }
    let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    if head[4] != 2 || head[5] != 1 || word(18) != machine {
        return Err("is made for another kind of machine than this `onstack`".into());
    }
    let start = head[32..40].try_into().map_or(0, u64::from_le_bytes);
    let (size, count) = (u64::from(word(54)), u64::from(word(56)));
    let has_loader = (0..count).any(|index| {
        let mut kind = [0; 4];
        let place = size.checked_mul(index).and_then(|offset| offset.checked_add(start));
        place.is_some_and(|place| file.read_exact_at(&mut kind, place).is_ok()) && u32::from_le_bytes(kind) == PT_INTERP
    });
    if has_loader {
        return Ok(());
    }
    Err("is linked statically, and a static program takes no preload. Link it dynamically, or build the profiler in: \
         the crate `onstack` for Rust, the package for Go, libonstack for C and C++"
        .into())
}
