// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks as values that a program can look at and change.

use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use onstack_profile::demangle;

use crate::MAX_THREAD_NAME;

/// A function at a place of the program. Two with the same [raw name](Symbol::raw_name) are equal, whatever their places.
#[derive(Clone, Debug, Eq)]
pub struct Symbol {
    /// As the symbol table has it, not demangled; nothing where the place has no name.
    pub name: Option<Vec<u8>>,
    /// Address of the place: the interrupted instruction, or one inside the call.
    pub addr: Option<*mut c_void>,
    /// Its line, where debug information knows it.
    pub lineno: Option<u32>,
    /// Its source file, where debug information knows it.
    pub filename: Option<PathBuf>,
}

// SAFETY: the address is only a number here; nothing reads through it.
unsafe impl Send for Symbol {}
// SAFETY: as above.
unsafe impl Sync for Symbol {}

impl Symbol {
    /// The name as it stands in [`Symbol::name`], `Unknown` where there is none.
    pub fn raw_name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or(b"Unknown")
    }

    /// The name for people: Rust's and, with the feature `cpp`, C++'s are demangled.
    pub fn name(&self) -> String {
        let name = self.sys_name();
        demangle(&name).unwrap_or_else(|| name.into_owned())
    }

    /// The name as text, not demangled.
    pub fn sys_name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.raw_name())
    }

    /// The source file, `Unknown` where it is not known.
    pub fn filename(&self) -> Cow<'_, str> {
        self.filename.as_deref().map_or(Cow::Borrowed("Unknown"), |path| path.to_string_lossy())
    }

    /// The line, 0 where it is not known.
    pub fn lineno(&self) -> u32 {
        self.lineno.unwrap_or(0)
    }
}

impl PartialEq for Symbol {
    fn eq(&self, other: &Self) -> bool {
        self.raw_name() == other.raw_name()
    }
}

impl Hash for Symbol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw_name().hash(state);
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A stack of a thread, with names.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Frames {
    /// Leaf first. A frame holds the function that owns the code last, and before it the functions that were inlined
    /// there, the innermost first. A stack that does not reach its root ends with a frame that says why, as
    /// `[truncated: unreadable stack memory]`.
    pub frames: Vec<Vec<Symbol>>,
    /// The thread's name, at most 15 bytes; empty when it is not known or not wanted.
    pub thread_name: String,
    /// The kernel's number of the thread; 0 when it is not wanted.
    pub thread_id: u64,
    /// The labels that the samples carried, those of the whole profile among them; samples with other ones are another
    /// entry.
    pub labels: Vec<(String, String)>,
    /// When the report's samples began: samples of the same stack are one entry.
    pub sample_timestamp: SystemTime,
}

/// No frames of no thread, for a literal with some fields.
impl Default for Frames {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            thread_name: String::new(),
            thread_id: 0,
            labels: Vec::new(),
            sample_timestamp: SystemTime::UNIX_EPOCH,
        }
    }
}

impl Frames {
    /// The thread's name, or its number if it has none.
    pub fn thread_name_or_id(&self) -> String {
        if self.thread_name.is_empty() {
            self.thread_id.to_string()
        } else {
            self.thread_name.clone()
        }
    }
}

/// Root first on one line, as folded stacks have it.
impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.thread_name_or_id())?;
        for symbol in self.frames.iter().rev().flat_map(|frame| frame.iter().rev()) {
            write!(f, ";{symbol}")?;
        }
        Ok(())
    }
}

/// A place in a stack without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame(pub(crate) u64);

impl Frame {
    /// The interrupted instruction, or an address inside the call.
    pub fn ip(&self) -> *mut c_void {
        self.0 as usize as *mut c_void
    }
}

/// A stack of a thread as addresses. [`Frames::from`] looks names up, for one stack at a time; a report has all of them sooner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnresolvedFrames {
    /// Leaf first: the interrupted instruction, then addresses inside the calls.
    pub frames: Vec<Frame>,
    /// The thread's name as bytes, with NULs behind it.
    pub thread_name: [u8; MAX_THREAD_NAME],
    /// Bytes of the name; 0 when it is not known or not wanted.
    pub thread_name_length: usize,
    /// The kernel's number of the thread; 0 when it is not wanted.
    pub thread_id: u64,
    /// When the report's samples began.
    pub sample_timestamp: SystemTime,
}

impl UnresolvedFrames {
    pub(crate) fn new(frames: Vec<Frame>, name: &str, thread_id: u64, sample_timestamp: SystemTime) -> Self {
        let mut thread_name = [0; MAX_THREAD_NAME];
        let thread_name_length = name.len().min(MAX_THREAD_NAME);
        thread_name[..thread_name_length].copy_from_slice(&name.as_bytes()[..thread_name_length]);
        Self { frames, thread_name, thread_name_length, thread_id, sample_timestamp }
    }
}

/// When the samples of a report were taken, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportTiming {
    /// Ticks a second of the session's clock.
    pub frequency: c_int,
    /// When the samples began.
    pub start_time: SystemTime,
    /// How long they were taken.
    pub duration: Duration,
}

impl Default for ReportTiming {
    fn default() -> Self {
        Self { frequency: 1, start_time: SystemTime::UNIX_EPOCH, duration: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_only_for_people() {
        let symbol = |name: Option<&str>| Symbol {
            name: name.map(|name| name.as_bytes().to_vec()),
            addr: None,
            lineno: None,
            filename: None,
        };
        let mangled = symbol(Some("_ZN6server3run17h0123456789abcdefE"));
        assert_eq!((mangled.name().as_str(), mangled.sys_name().len()), ("server::run", 34));
        let unknown = symbol(None);
        assert_eq!((unknown.name().as_str(), &*unknown.filename(), unknown.lineno()), ("Unknown", "Unknown", 0));
        let frames = Frames {
            frames: vec![vec![symbol(Some("inlined")), symbol(Some("leaf"))], vec![symbol(Some("root"))]],
            thread_name: String::new(),
            thread_id: 7,
            labels: Vec::new(),
            sample_timestamp: SystemTime::UNIX_EPOCH,
        };
        assert_eq!(format!("{frames:?}"), "7;root;leaf;inlined");
    }
}
