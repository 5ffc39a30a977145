// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be chosen about a session, in the types of Rust.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::{fmt, ptr};

use onstack_sys as sys;

use crate::error::{check, Error, Result};

/// Who ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The CPU time of each thread.
    #[default]
    Cpu,
    /// Real time: threads that wait are sampled as well, by looks from outside, 20 a second unless [`Options::frequency`] says
    /// otherwise: nobody is interrupted. Samples have labels: `state` (`running`, `runnable`, `blocked`, `uninterruptible`,
    /// `stopped`), `wait` (the system call), `on` (the lock, or what the descriptor is), `holder` (the thread that has the lock).
    Wall,
    /// Real time, by signals. Each tick ends poll, epoll_wait, nanosleep and their like with EINTR, which the program must be
    /// able to bear.
    WallSignal,
    /// None: memory, where it is allocated, and which of it is in use, as [`heap::Allocator`](crate::heap::Allocator) tells it.
    /// [`Options::frequency`] must not be set, and no signal is caught. [`ProfilerGuard::pprof`](crate::ProfilerGuard::pprof)
    /// has `inuse_space`, `inuse_objects`, `alloc_space` and `alloc_objects`.
    Heap,
}

impl Clock {
    /// Of the samples that its sessions make.
    pub(crate) fn kind(self) -> sys::onstack_kind {
        match self {
            Self::Cpu => sys::ONSTACK_KIND_CPU,
            Self::Wall | Self::WallSignal => sys::ONSTACK_KIND_WALL,
            Self::Heap => sys::ONSTACK_KIND_ALLOCATION,
        }
    }
}

/// A request id and two or three names.
const LABEL_BYTES: u32 = 256;

type Accepts = dyn Fn(i32, &str) -> bool + Send + Sync;

/// Which threads a clock of real time samples.
#[derive(Clone)]
pub(crate) struct ThreadFilter(Arc<Accepts>);

impl fmt::Debug for ThreadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadFilter")
    }
}

/// What happens in a child of `fork`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fork {
    /// The child has no session; it may start one.
    #[default]
    Stop,
    /// The child goes on by itself: with counters and samples of its own, from zero. A sink of one's own works on the
    /// child's copy of what it holds, where locks may look taken by threads that are not there.
    Follow,
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
    label_bytes: Option<u32>,
    fork: Fork,
    thread_filter: Option<ThreadFilter>,
    unwinder: Option<String>,
    heap_interval: Option<u32>,
    heap_objects: Option<u32>,
    interpreters: Option<bool>,
}

impl Options {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ticks a second of the clock, 1 to 10,000; unless set 99, and 20 of [`Clock::Wall`]. An explicit 0 is [`Error::Frequency`].
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
    /// [`Session::poll`](crate::Session::poll) every 20 ms while the program works, every 50 while it rests: new threads
    /// and other owners of the signal are noticed by it.
    pub fn threads(mut self, yes: bool) -> Self {
        self.threads = Some(yes);
        self
    }

    /// Whether the library's own threads are sampled too; no unless set.
    pub fn own_threads(mut self, yes: bool) -> Self {
        self.own_threads = Some(yes);
        self
    }

    /// The signal's number; `SIGPROF` unless set, and the only one where a Go runtime is in the process. Refused are
    /// those that report faults, or end, stop or continue processes; best is a real-time signal that nobody uses.
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

    /// Room for [labels](crate::label) in a sample, at most 4,096 bytes; 256 unless set. With 0 samples carry none.
    pub fn label_bytes(mut self, bytes: u32) -> Self {
        self.label_bytes = Some(bytes);
        self
    }

    /// What happens in a child of `fork`; it has no session unless set.
    pub fn fork(mut self, fork: Fork) -> Self {
        self.fork = fork;
        self
    }

    /// Which threads are sampled, by number and name, with [`Clock::Wall`] and [`Clock::WallSignal`]; all unless set. Asked once a thread, when it is
    /// found, and must not wait. On another clock the start returns [`Error::Options`].
    pub fn thread_filter(mut self, accepts: impl Fn(i32, &str) -> bool + Send + Sync + 'static) -> Self {
        self.thread_filter = Some(ThreadFilter(Arc::new(accepts)));
        self
    }

    /// The unwinder's name: `rules` (default), `frame_pointer` or `pc_only`.
    pub fn unwinder(mut self, name: impl Into<String>) -> Self {
        self.unwinder = Some(name.into());
        self
    }

    /// With [`Clock::Heap`]: the mean of bytes from one sample to the next; 524,288 unless set. With 1 each allocation is counted.
    pub fn heap_interval(mut self, bytes: u32) -> Self {
        self.heap_interval = Some(bytes);
        self
    }

    /// With [`Clock::Heap`]: how many sampled allocations can be in use at a time, at most 1,048,576; 16,384 unless set. Later
    /// ones are in `alloc`, but never in `inuse` ([`Stats::heap_untracked`](crate::Stats::heap_untracked)). Each takes some 70 bytes.
    pub fn heap_objects(mut self, count: u32) -> Self {
        self.heap_objects = Some(count);
        self
    }

    /// Whether samples have frames of interpreted languages in the process, of CPython and PHP, in the place of the
    /// interpreter's own; no unless set. Reports name them as other functions.
    pub fn interpreters(mut self, yes: bool) -> Self {
        self.interpreters = Some(yes);
        self
    }

    pub(crate) fn chosen_clock(&self) -> Clock {
        self.clock
    }

    /// The core's structure, and the string that it points to. A zero there means "default", so that an explicit zero
    /// is refused here.
    pub(crate) fn to_sys(&self, sink: sys::onstack_sink, sink_data: *mut c_void) -> Result<SysOptions> {
        // SAFETY: all fields are integers and pointers that may be zero or null.
        let mut raw: sys::onstack_options = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is ours and its size is said.
        check(unsafe { sys::onstack_options_init(&mut raw, size_of::<sys::onstack_options>()) })?;

        raw.frequency = match self.frequency.map(u32::try_from) {
            None => 0,
            Some(Ok(hertz)) if hertz != 0 => hertz,
            Some(_) => return Err(Error::Frequency),
        };
        raw.max_depth = explicit(self.max_depth.or(Some(crate::MAX_DEPTH)), "max_depth: give 1 to 1,024 frames")?;
        raw.buffer_bytes = explicit(self.buffer_bytes, "buffer_bytes: give 64 KiB to 256 MiB")?;
        raw.heap_interval = explicit(self.heap_interval, "heap_interval: give 1 byte or more")?;
        raw.heap_objects = explicit(self.heap_objects, "heap_objects: give 1 to 1,048,576")?;
        raw.signal = match self.signal {
            Some(number) if number < 1 => return Err(Error::Signal),
            other => other.unwrap_or(0),
        };
        raw.clock = match self.clock {
            Clock::Cpu => sys::ONSTACK_CLOCK_CPU,
            Clock::Wall => sys::ONSTACK_CLOCK_WALL,
            Clock::WallSignal => sys::ONSTACK_CLOCK_WALL_SIGNAL,
            Clock::Heap => sys::ONSTACK_CLOCK_HEAP,
        } as sys::onstack_clock;
        raw.restore = match self.restore {
            Restore::Exact => sys::ONSTACK_RESTORE_EXACT,
            Restore::Ignore => sys::ONSTACK_RESTORE_IGNORE,
        } as sys::onstack_restore;
        raw.fork = match self.fork {
            Fork::Stop => sys::ONSTACK_FORK_STOP,
            Fork::Follow => sys::ONSTACK_FORK_FOLLOW,
        } as sys::onstack_fork;
        raw.label_bytes = self.label_bytes.unwrap_or(LABEL_BYTES);
        raw.on_stack = switch(self.on_stack);
        raw.threads = switch(self.threads);
        raw.own_threads = switch(self.own_threads);
        raw.interpreters = switch(self.interpreters);
        if self.interpreters == Some(true) {
            register_interpreters()?;
        }
        raw.sink = sink;
        raw.sink_data = sink_data;

        let unwinder = self.unwinder.as_deref().map(CString::new).transpose();
        let unwinder = unwinder.map_err(|_| Error::Unwinder)?;
        raw.unwinder = unwinder.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let filter = self.thread_filter.clone().map(Box::new);
        if let Some(filter) = &filter {
            raw.thread_filter = Some(accepts);
            raw.thread_filter_data = (&**filter as *const ThreadFilter).cast_mut().cast();
        }
        Ok(SysOptions { raw, filter, _unwinder: unwinder })
    }
}

/// For sessions with [`Options::interpreters`], and for dumps.
pub(crate) fn register_interpreters() -> Result<()> {
    // SAFETY: it takes nothing and may be called again.
    check(unsafe { sys::onstack_interpreters_register() }).map(drop)
}

unsafe extern "C" fn accepts(data: *mut c_void, tid: i32, name: *const c_char) -> c_int {
    // SAFETY: the filter that the session's handle keeps, and a NUL-terminated name that lives during the call.
    let (filter, name) = unsafe { (&*data.cast::<ThreadFilter>(), CStr::from_ptr(name)) };
    // A panic must not go through the core; the thread is sampled then.
    let accepted = catch_unwind(AssertUnwindSafe(|| (filter.0)(tid, &name.to_string_lossy())));
    c_int::from(accepted.unwrap_or(true))
}

/// The core's options together with what they point to; the core copies the text while it starts.
pub(crate) struct SysOptions {
    pub(crate) raw: sys::onstack_options,
    /// Asked as long as the session lives.
    pub(crate) filter: Option<Box<ThreadFilter>>,
    _unwinder: Option<CString>,
}

impl SysOptions {
    /// The name of the option that a start refused, and what to give: options have the same names here.
    pub(crate) fn explain(&self, error: Error) -> Error {
        // SAFETY: the options are filled in, and what they point to lives as long.
        let text = unsafe { sys::onstack_options_fault(&self.raw) };
        if !matches!(error, Error::Options(_)) || text.is_null() {
            return error;
        }
        // SAFETY: a static, NUL-terminated string.
        Error::Options(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

fn explicit(value: Option<u32>, what: &str) -> Result<u32> {
    match value {
        Some(0) => Err(Error::Options(what.into())),
        other => Ok(other.unwrap_or(0)),
    }
}

pub(crate) fn switch(value: Option<bool>) -> sys::onstack_switch {
    (match value {
        None => sys::ONSTACK_DEFAULT,
        Some(true) => sys::ONSTACK_ON,
        Some(false) => sys::ONSTACK_OFF,
    }) as sys::onstack_switch
}
