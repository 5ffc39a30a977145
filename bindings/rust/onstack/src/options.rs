// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be chosen about a session, in the types of Rust.

use std::ffi::{c_int, c_void, CString};
use std::mem::size_of;
use std::ptr;

use onstack_sys as sys;

use crate::error::{check, Error, Result};

/// Who ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The CPU time of each thread.
    #[default]
    Cpu,
    /// Real time. Not in this version: [`Error::Unsupported`].
    Wall,
}

/// What is left of the signal's action once the last session has stopped, if nobody has installed a newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restore {
    /// The action that was found: handler, flags and mask.
    #[default]
    Exact,
    /// The signal is ignored, as older profilers leave it.
    Ignore,
}

/// What can be chosen about a [`Session`](crate::Session). What is not set has the default that stands with it.
///
/// Wrong values are reported by the start, not here.
#[derive(Clone, Debug, Default)]
pub struct Options {
    frequency: Option<c_int>,
    clock: Clock,
    on_stack: Option<bool>,
    restore: Restore,
    threads: Option<bool>,
    own_threads: Option<bool>,
    signal: Option<c_int>,
    max_depth: Option<u32>,
    buffer_bytes: Option<u32>,
    unwinder: Option<String>,
}

impl Options {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ticks a second of the clock, 1 to 10,000; 99 unless set. An explicit 0 is [`Error::Frequency`].
    pub fn frequency(mut self, hertz: c_int) -> Self {
        self.frequency = Some(hertz);
        self
    }

    /// Who ticks; the CPU time of each thread unless set.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Whether the handler runs on the threads' alternate signal stacks; yes unless set. Refused where it would corrupt
    /// a Go runtime in the process.
    pub fn on_stack(mut self, yes: bool) -> Self {
        self.on_stack = Some(yes);
        self
    }

    /// What stop leaves behind; the action that was found unless set.
    pub fn restore(mut self, restore: Restore) -> Self {
        self.restore = restore;
        self
    }

    /// Whether a thread of the library brings the samples to the sink; yes unless set. Without it call
    /// [`Session::poll`](crate::Session::poll) ten times a second or so.
    pub fn threads(mut self, yes: bool) -> Self {
        self.threads = Some(yes);
        self
    }

    /// Whether the library's own threads are sampled too; no unless set.
    pub fn own_threads(mut self, yes: bool) -> Self {
        self.own_threads = Some(yes);
        self
    }

    /// The signal's number; `SIGPROF` unless set.
    pub fn signal(mut self, number: c_int) -> Self {
        self.signal = Some(number);
        self
    }

    /// Frames in a sample, 1 to 1,024; [`MAX_DEPTH`](crate::MAX_DEPTH) unless set.
    pub fn max_depth(mut self, frames: u32) -> Self {
        self.max_depth = Some(frames);
        self
    }

    /// Bytes for samples that wait for the sink, 64 KiB to 256 MiB; 1 MiB unless set.
    pub fn buffer_bytes(mut self, bytes: u32) -> Self {
        self.buffer_bytes = Some(bytes);
        self
    }

    /// The unwinder's name: `rules` (default), `frame_pointer` or `pc_only`.
    pub fn unwinder(mut self, name: impl Into<String>) -> Self {
        self.unwinder = Some(name.into());
        self
    }

    pub(crate) fn frequency_or_default(&self) -> c_int {
        self.frequency.unwrap_or(sys::ONSTACK_DEFAULT_FREQUENCY as c_int)
    }

    /// The core's structure, and the string that it points to. A zero there means "default", so that an explicit zero
    /// is refused here.
    pub(crate) fn to_sys(&self, sink: sys::onstack_sink, sink_data: *mut c_void) -> Result<SysOptions> {
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut raw: sys::onstack_options = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is ours and its size is said.
        check(unsafe { sys::onstack_options_init(&mut raw, size_of::<sys::onstack_options>()) })?;

        raw.frequency = explicit(self.frequency.map(u32::try_from), || Error::Frequency)?;
        raw.max_depth = match explicit(self.max_depth.map(Ok::<_, Error>), || Error::Options)? {
            0 => crate::MAX_DEPTH as u32,
            depth => depth,
        };
        raw.buffer_bytes = explicit(self.buffer_bytes.map(Ok::<_, Error>), || Error::Options)?;
        raw.signal = match self.signal {
            Some(number) if number < 1 => return Err(Error::Signal),
            other => other.unwrap_or(0),
        };
        raw.clock = match self.clock {
            Clock::Cpu => sys::ONSTACK_CLOCK_CPU,
            Clock::Wall => sys::ONSTACK_CLOCK_WALL,
        } as sys::onstack_clock;
        raw.restore = match self.restore {
            Restore::Exact => sys::ONSTACK_RESTORE_EXACT,
            Restore::Ignore => sys::ONSTACK_RESTORE_IGNORE,
        } as sys::onstack_restore;
        raw.on_stack = switch(self.on_stack);
        raw.threads = switch(self.threads);
        raw.own_threads = switch(self.own_threads);
        raw.sink = sink;
        raw.sink_data = sink_data;

        let unwinder = self.unwinder.as_deref().map(CString::new).transpose();
        let unwinder = unwinder.map_err(|_| Error::Unwinder)?;
        raw.unwinder = unwinder.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        Ok(SysOptions { raw, _unwinder: unwinder })
    }
}

/// The core's options together with what they point to; the core copies both while it starts.
pub(crate) struct SysOptions {
    pub(crate) raw: sys::onstack_options,
    _unwinder: Option<CString>,
}

fn explicit<E>(value: Option<std::result::Result<u32, E>>, error: fn() -> Error) -> Result<u32> {
    match value {
        None => Ok(0),
        Some(Ok(value)) if value != 0 => Ok(value),
        Some(_) => Err(error()),
    }
}

pub(crate) fn switch(value: Option<bool>) -> sys::onstack_switch {
    (match value {
        None => sys::ONSTACK_DEFAULT,
        Some(true) => sys::ONSTACK_ON,
        Some(false) => sys::ONSTACK_OFF,
    }) as sys::onstack_switch
}
