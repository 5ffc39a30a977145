// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preload library inside this program, unpacked where only its user can write: what is loaded runs as that user.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{env, mem};

use crate::failure::Failure;
use crate::output;
use crate::trust::{is_only_ours, NAME};

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libonstack-preload.so"));

const ADVICE: &str = "XDG_CACHE_HOME names another place for the carried library, `--preload FILE` another library";

/// Where the library lies, with these very bytes. It stays: programs that were recorded, and what they start, may still
/// load it after this command has ended.
pub fn unpack() -> Result<PathBuf, Failure> {
    let base = cache()?;
    let failed = |path: &Path, what: &str| Failure::new(path, format!("{what}. {ADVICE}"));
    let cannot = |path: &Path, error: io::Error| failed(path, &format!("cannot unpack the preload library: {error}"));
    fs::create_dir_all(&base).map_err(|error| cannot(&base, error))?;
    let base = base.canonicalize().map_err(|error| cannot(&base, error))?;
    if !is_only_ours(&base) {
        return Err(failed(&base, "is no place for the preload library: others may write there"));
    }
    let place = base.join("onstack");
    make_private(&place).map_err(|error| cannot(&place, error))?;
    // One name for each build: another version's command may be recording with its own.
    let place = place.join(name());
    make_private(&place).map_err(|error| cannot(&place, error))?;
    let library = place.join(NAME);
    if !is_ours(&library) {
        output::replace(&library, LIBRARY).map_err(|error| cannot(&library, error))?;
    }
    if !is_ours(&library) {
        return Err(failed(&library, "is not what was written there"));
    }
    if forbids_code(&place) {
        return Err(failed(&library, "cannot be loaded: its file system is mounted noexec"));
    }
    Ok(library)
}

fn cache() -> Result<PathBuf, Failure> {
    let named = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache"))).ok_or_else(|| {
        Failure::new(Path::new(NAME), format!("has no place: neither XDG_CACHE_HOME nor HOME is set. {ADVICE}"))
    })
}

/// Of the contents, but for names alone: what counts is the comparison of all bytes.
fn name() -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(LIBRARY);
    format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hasher.finish())
}

/// A directory of this user's that nobody else may even look into; an existing one must be such, and no link to one.
fn make_private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let there = fs::symlink_metadata(path)?;
    // SAFETY: asks for a number.
    let own = unsafe { libc::geteuid() };
    let wrong = if !there.is_dir() {
        "it is no directory"
    } else if there.uid() != own {
        "it is somebody else's"
    } else if there.mode() & 0o077 != 0 {
        "others may look into it (chmod 700 makes it private)"
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, wrong))
}

/// The very file that was opened is a regular one of this user's that nobody else can write, with the carried bytes.
fn is_ours(path: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    opened.is_ok_and(|file| {
        // SAFETY: asks for a number.
        let own = unsafe { libc::geteuid() };
        file.metadata().is_ok_and(|there| {
            there.is_file() && there.uid() == own && there.mode() & 0o022 == 0 && there.len() == LIBRARY.len() as u64
        }) && has_the_bytes(file)
    })
}

fn has_the_bytes(file: File) -> bool {
    let mut bytes = Vec::with_capacity(LIBRARY.len());
    file.take(LIBRARY.len() as u64 + 1).read_to_end(&mut bytes).is_ok() && bytes == LIBRARY
}

/// The loader would leave the library out, with a line that does not tell why.
fn forbids_code(place: &Path) -> bool {
    let mut name = place.as_os_str().as_bytes().to_vec();
    name.push(0);
    let mut answer = mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a string with its end, and room for the answer, which all zeroes are one of too.
    unsafe {
        libc::statvfs(name.as_ptr().cast(), answer.as_mut_ptr()) == 0
            && answer.assume_init().f_flag & libc::ST_NOEXEC != 0
    }
}
