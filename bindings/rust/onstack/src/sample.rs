// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sample, as the sink receives it.

use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::slice;
use std::time::Duration;

use onstack_sys as sys;

/// Why a stack could not be followed to its root. The frames that are there are right; what is missing is above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Truncation {
    /// Followed to its root.
    Not,
    /// More frames than the session's maximal depth.
    Depth,
    /// The next frame lies in memory that cannot be read.
    Unreadable,
    /// The frame pointer is not aligned: that code keeps none.
    Misaligned,
    /// The frame pointer points below the stack pointer or in a circle, or is zero in code that begins no stack.
    NotRising,
    /// The return address is not in executable memory.
    BadReturn,
    /// A switch of stacks that could not be followed.
    StackSwitch,
    /// The unwinder records no callers.
    ByDesign,
    /// The user's unwinder said so.
    Unwinder,
    /// Code without unwind information: assembly, or generated without frame pointers.
    NoRule,
    /// Code that was loaded or noticed so lately that its unwind information was still being read.
    Pending,
    /// A reason that this version of the crate does not know.
    Other(u32),
}

impl Truncation {
    const KNOWN: [(u32, Truncation); 11] = [
        (sys::ONSTACK_TRUNCATED_NOT, Truncation::Not),
        (sys::ONSTACK_TRUNCATED_DEPTH, Truncation::Depth),
        (sys::ONSTACK_TRUNCATED_UNREADABLE, Truncation::Unreadable),
        (sys::ONSTACK_TRUNCATED_MISALIGNED, Truncation::Misaligned),
        (sys::ONSTACK_TRUNCATED_NOT_RISING, Truncation::NotRising),
        (sys::ONSTACK_TRUNCATED_BAD_RETURN, Truncation::BadReturn),
        (sys::ONSTACK_TRUNCATED_STACK_SWITCH, Truncation::StackSwitch),
        (sys::ONSTACK_TRUNCATED_BY_DESIGN, Truncation::ByDesign),
        (sys::ONSTACK_TRUNCATED_UNWINDER, Truncation::Unwinder),
        (sys::ONSTACK_TRUNCATED_NO_RULE, Truncation::NoRule),
        (sys::ONSTACK_TRUNCATED_PENDING, Truncation::Pending),
    ];

    fn from_code(code: u32) -> Self {
        Self::KNOWN.iter().find(|known| known.0 == code).map_or(Truncation::Other(code), |known| known.1)
    }

    pub(crate) fn code(self) -> u32 {
        match self {
            Truncation::Other(code) => code,
            known => Self::KNOWN.iter().find(|entry| entry.1 == known).map_or(u32::MAX, |entry| entry.0),
        }
    }
}

/// What a sample tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// CPU time, from the ticks of [`Clock::Cpu`](crate::Clock::Cpu).
    Cpu,
    /// Real time, from sessions of [`Clock::Wall`](crate::Clock::Wall) and its like.
    Wall,
    /// Memory, where it was allocated.
    Allocation,
    /// A thread's stack at the moment of a question.
    Dump,
    /// A kind that this version of the crate does not know.
    Other(u32),
}

impl Kind {
    fn from_code(code: u32) -> Self {
        match code {
            sys::ONSTACK_KIND_CPU => Kind::Cpu,
            sys::ONSTACK_KIND_WALL => Kind::Wall,
            sys::ONSTACK_KIND_ALLOCATION => Kind::Allocation,
            sys::ONSTACK_KIND_DUMP => Kind::Dump,
            other => Kind::Other(other),
        }
    }
}

/// What a sample's value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Things.
    Count,
    /// Time.
    Nanoseconds,
    /// Memory.
    Bytes,
    /// A unit that this version of the crate does not know.
    Other(u32),
}

impl Unit {
    fn from_code(code: u32) -> Self {
        match code {
            sys::ONSTACK_UNIT_COUNT => Unit::Count,
            sys::ONSTACK_UNIT_NANOSECONDS => Unit::Nanoseconds,
            sys::ONSTACK_UNIT_BYTES => Unit::Bytes,
            other => Unit::Other(other),
        }
    }
}

/// How much lies between one sample and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Period {
    /// In `unit`.
    pub amount: u64,
    /// What it is counted in: time, or bytes of [`Clock::Heap`](crate::Clock::Heap).
    pub unit: Unit,
}

impl Period {
    pub(crate) fn new(amount: u64, unit: u32) -> Self {
        Self { amount, unit: Unit::from_code(unit) }
    }

    /// A period of time; `None` for one of another unit.
    pub fn duration(self) -> Option<Duration> {
        (self.unit == Unit::Nanoseconds).then(|| Duration::from_nanos(self.amount))
    }
}

/// One sample, borrowed for the call of the sink that receives it.
pub struct Sample<'a> {
    raw: &'a sys::onstack_sample,
    // What the pointers in `raw` lead to lives as long, and no thread but the sink's may hold it.
    _not_send: PhantomData<*const ()>,
}

impl<'a> Sample<'a> {
    /// # Safety
    /// `raw` is what the core gave to a sink, and lives as long as that call.
    pub(crate) unsafe fn new(raw: &'a sys::onstack_sample) -> Self {
        Self { raw, _not_send: PhantomData }
    }

    /// What it tells of. A session's samples are of one kind, as its clock is.
    pub fn kind(&self) -> Kind {
        Kind::from_code(self.raw.kind)
    }

    /// What it stands for, in its [`unit`](Self::unit): `weight x period` of CPU and real time.
    pub fn value(&self) -> u64 {
        self.raw.value
    }

    /// What the value is counted in; each kind has one.
    pub fn unit(&self) -> Unit {
        Unit::from_code(self.raw.unit)
    }

    /// Events that this sample stands for; of ticks 1 and the overruns.
    pub fn weight(&self) -> u32 {
        self.raw.weight
    }

    /// When it was taken, as time of `CLOCK_MONOTONIC`.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.raw.time_ns)
    }

    /// What the session's samples are apart: time between two ticks of a thread, or the mean number of bytes; amount 0 where
    /// each event is a sample.
    pub fn period(&self) -> Period {
        Period::new(self.raw.period, self.raw.unit)
    }

    /// The kernel's number of the thread.
    pub fn thread_id(&self) -> i32 {
        self.raw.tid
    }

    /// The thread's name, at most 15 bytes; empty when it is not known.
    pub fn thread_name(&self) -> &'a [u8] {
        // SAFETY: NUL-terminated, never null, lives as long as the sample.
        unsafe { CStr::from_ptr(self.raw.thread_name) }.to_bytes()
    }

    /// Addresses, leaf first, at least one. The first is the interrupted instruction, or the system call's instruction if
    /// the thread is blocked in a system call. The others are return addresses: the call is at the address less 1.
    pub fn frames(&self) -> &'a [u64] {
        // SAFETY: the core says how many there are, and they live as long as the sample.
        unsafe { slice::from_raw_parts(self.raw.frames, self.raw.frame_count as usize) }
    }

    /// Labels that the sample carries, key and value: those of a goroutine, then those of the thread.
    pub fn labels(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let bytes: &'a [u8] = if self.raw.labels.is_null() {
            &[]
        } else {
            // SAFETY: the core says how many bytes there are, and they live as long as the sample.
            unsafe { slice::from_raw_parts(self.raw.labels.cast(), self.raw.label_bytes as usize) }
        };
        let mut texts = bytes.strip_suffix(b"\0").map(|texts| texts.split(|&byte| byte == 0));
        std::iter::from_fn(move || {
            let texts = texts.as_mut()?;
            Some((texts.next()?, texts.next()?))
        })
    }

    /// Whether there were more labels than the session has room for.
    pub fn labels_were_cut(&self) -> bool {
        self.raw.flags & sys::ONSTACK_SAMPLE_LABELS_CUT != 0
    }

    /// Whether the stack reaches its root, and if not, why.
    pub fn truncation(&self) -> Truncation {
        Truncation::from_code(self.raw.truncation)
    }
}

impl fmt::Debug for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample")
            .field("kind", &self.kind())
            .field("value", &self.value())
            .field("weight", &self.weight())
            .field("thread_id", &self.thread_id())
            .field("thread_name", &String::from_utf8_lossy(self.thread_name()))
            .field("frames", &self.frames())
            .field("truncation", &self.truncation())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_units_have_words() {
        for code in sys::ONSTACK_KIND_CPU..=sys::ONSTACK_KIND_DUMP {
            assert!(!matches!(Kind::from_code(code), Kind::Other(_)), "{code}");
        }
        for code in sys::ONSTACK_UNIT_COUNT..=sys::ONSTACK_UNIT_BYTES {
            assert!(!matches!(Unit::from_code(code), Unit::Other(_)), "{code}");
        }
        assert_eq!((Kind::from_code(77), Unit::from_code(77)), (Kind::Other(77), Unit::Other(77)));
    }

    #[test]
    fn truncations_come_back_from_their_codes() {
        for code in 0..sys::ONSTACK_TRUNCATION_COUNT {
            let reason = Truncation::from_code(code);
            assert!(!matches!(reason, Truncation::Other(_)), "{code}");
            assert_eq!(reason.code(), code);
        }
        assert_eq!(Truncation::from_code(77), Truncation::Other(77));
    }
}
