// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where results go: to the standard output, through what is no file, or into files that are made safely.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Error, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

enum Target {
    Standard,
    /// One that was handed to this process, by its name in /dev or /proc.
    Descriptor,
    /// A pipe or a device.
    Special,
    File,
}

/// Writes a whole result, to the standard output where no path is given. A reader that has seen enough and closed the
/// pipe is no failure.
pub fn write(path: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    // A limit on sizes is then an error like others, after which the temporary file goes.
    // SAFETY: changes the action of a signal for which there is no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let path = path.unwrap_or(Path::new("-"));
    let written = target(path).and_then(|target| match target {
        Target::Standard => write_standard(bytes),
        // What a shell has opened for appending, or has written to, stays.
        Target::Descriptor => OpenOptions::new().append(true).open(path)?.write_all(bytes),
        Target::Special => open_special(path)?.write_all(bytes),
        Target::File => replace(path, bytes),
    });
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(cannot(path, error)),
        _ => Ok(()),
    }
}

/// A directory that goes when this does.
pub struct Scratch(pub PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A directory for this process alone, where files for the output may lie meanwhile: beside it, as the same file system
/// has room, or has none in time. Fails where `write` would.
pub fn scratch(path: &Path) -> Result<Scratch, Failure> {
    let make = || {
        let beside = match target(path)? {
            Target::File => name_beside(path),
            _ => name_beside(&env::temp_dir().join("output")),
        };
        fs::DirBuilder::new().mode(0o700).create(&beside)?;
        beside.canonicalize().map(Scratch)
    };
    make().map_err(|error| cannot(path, error))
}

/// The file that is meant for the program with this process id: %p in its name stands for that, %% for a percent sign.
pub fn of_process(path: &Path, process: u32) -> PathBuf {
    let Some(pattern) = path.file_name() else { return path.to_owned() };
    let (mut name, mut bytes) = (Vec::new(), pattern.as_bytes());
    while let Some((&first, rest)) = bytes.split_first() {
        match (first, rest.first()) {
            (b'%', Some(b'p')) => name.extend_from_slice(process.to_string().as_bytes()),
            (b'%', Some(b'%')) => name.push(b'%'),
            _ => name.push(first),
        }
        let taken = usize::from(first == b'%' && matches!(rest.first(), Some(b'p' | b'%')));
        bytes = &rest[taken..];
    }
    path.with_file_name(OsString::from_vec(name))
}

/// The pattern that means just this file to the preloaded library, where a directory's name may have a percent sign.
fn pattern(path: &Path) -> OsString {
    let doubled =
        path.as_os_str().as_bytes().iter().flat_map(|&byte| [byte; 2].into_iter().take(1 + usize::from(byte == b'%')));
    OsString::from_vec(doubled.collect())
}

/// The same, with the process id behind it where each process has its own file.
pub fn pattern_of(path: &Path, each: bool) -> OsString {
    let mut pattern = pattern(path);
    if each {
        pattern.push(".%p");
    }
    pattern
}

/// The output's name for people.
pub fn name(path: &Path) -> Cow<'_, str> {
    if path == Path::new("-") {
        return "standard output".into();
    }
    path.to_string_lossy()
}

fn cannot(path: &Path, error: Error) -> Failure {
    Failure::new(Path::new(&*name(path)), format!("cannot write: {error}"))
}

fn target(path: &Path) -> io::Result<Target> {
    if ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name)) {
        return Ok(Target::Standard);
    }
    if path == Path::new("/dev/stderr") || ["/dev/fd", "/proc/self/fd"].map(Path::new).contains(&directory(path)) {
        return Ok(Target::Descriptor);
    }
    let there = fs::symlink_metadata(path).map(|there| there.file_type());
    if there.is_ok_and(|kind| !kind.is_file() && !kind.is_dir() && !kind.is_symlink()) {
        return Ok(Target::Special);
    }
    check(path).map(|()| Target::File)
}

fn write_standard(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// Looks at what was opened: the name may lead to something else since it was looked at.
fn open_special(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NOCTTY).open(path)?;
    let opened = file.metadata()?;
    if opened.is_file() {
        return Err(Error::new(ErrorKind::AlreadyExists, "it has become a regular file"));
    }
    if opened.file_type().is_fifo() && is_planted(&opened, &fs::metadata(directory(path))?) {
        return Err(Error::new(ErrorKind::PermissionDenied, "it is a pipe of somebody else in a shared directory"));
    }
    Ok(file)
}

/// The rule of the kernel's fs.protected_fifos, which holds for O_CREAT only and is off on many machines.
fn is_planted(pipe: &fs::Metadata, directory: &fs::Metadata) -> bool {
    // SAFETY: asks for a number.
    let own = unsafe { libc::geteuid() };
    directory.mode() & libc::S_ISVTX != 0 && pipe.uid() != own && pipe.uid() != directory.uid()
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// As the preloaded library makes its own files (core/preload/new_file.h): puts a file with these bytes and mode 0600 in the place of what is there, or leaves that as it is.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    check(path)?;
    let mut new = New::beside(path)?;
    new.file.write_all(bytes)?;
    // Some file systems (NFS, quotas) tell a write's failure only here; and a crash must not leave the name without bytes.
    new.file.sync_all()?;
    fs::rename(&new.path, path)
}

/// Refuses what is there and no regular file. A link planted after this look is replaced, not followed.
fn check(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => {
            Err(Error::new(ErrorKind::AlreadyExists, "it is a symbolic link, which is not followed"))
        }
        Ok(there) if there.is_dir() => Err(Error::from_raw_os_error(libc::EISDIR)),
        Ok(there) if !there.is_file() => Err(Error::new(ErrorKind::AlreadyExists, "it is not a regular file")),
        _ => Ok(()),
    }
}

/// A name in the same directory, so that a rename stays in one file system, that nobody can take beforehand: the
/// hasher's keys are the kernel's random numbers.
fn name_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".onstack-{:016x}", RandomState::new().build_hasher().finish()))
}

/// Goes with this value, unless it has got another name.
struct New {
    path: PathBuf,
    file: File,
}

impl New {
    fn beside(path: &Path) -> io::Result<Self> {
        let path = name_beside(path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).mode(0o600);
        let file = options.open(&path)?;
        let new = Self { path, file };
        // A umask takes bits away; some file systems have none to give.
        let _ = new.file.set_permissions(Permissions::from_mode(0o600));
        Ok(new)
    }
}

impl Drop for New {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
