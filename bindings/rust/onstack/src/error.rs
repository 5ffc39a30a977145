// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the core answers: its result codes as an enum, under the same words, and bytes that it writes.

use std::borrow::Cow;
use std::ffi::{c_int, c_void, CStr};
use std::{error, fmt, io, slice};

use onstack_sys as sys;

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be done. The texts say what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The rate is 0, negative, or above 10,000 Hz.
    Frequency,
    /// An option or an argument has a value that it cannot have; the text names it and says what to give.
    Options(String),
    /// There is no unwinder of that name, or it refused to start.
    Unwinder,
    /// The signal cannot be caught, is reserved, or means more than a call of a handler; with Go, all but `SIGPROF`.
    Signal,
    /// As many sessions as can run at once are running.
    Sessions,
    /// The session has been stopped already, or belongs to the parent of this forked process.
    Stopped,
    /// The writer that was given refused the bytes.
    Output(io::Error),
    /// Not available on this system or in this version.
    Unsupported,
    /// The declarations and the core that was linked do not fit together.
    Version,
    /// Called from inside a sink or an unwinder.
    Context,
    /// Nothing here can tick: timers are refused, and signals of a thread of ours do not arrive either.
    Clock,
    /// The profile holds several kinds of samples, or those of memory, and a report or folded stacks have one number: pprof's
    /// format has them all.
    Kinds,
    /// A system call failed.
    Os(io::Error),
    /// The profile holds no samples, so there is nothing to draw.
    Empty,
    /// The bytes are not a pprof profile; the text says why.
    Input(String),
    /// The profile has more than 512 MiB, as it is or unpacked.
    TooLarge,
    /// A code that this version of the crate does not know.
    Unknown(i32),
}

impl Error {
    /// The error of a negative result of the core.
    fn from_code(code: c_int) -> Self {
        match code {
            sys::ONSTACK_E_FREQUENCY => Error::Frequency,
            sys::ONSTACK_E_OPTIONS => Error::Options("a value that the profiler's core does not take".into()),
            sys::ONSTACK_E_UNWINDER => Error::Unwinder,
            sys::ONSTACK_E_SIGNAL => Error::Signal,
            sys::ONSTACK_E_SESSIONS => Error::Sessions,
            sys::ONSTACK_E_STOPPED => Error::Stopped,
            // Every writer that this crate gives to the core fills a vector.
            sys::ONSTACK_E_OUTPUT => Error::Output(io::ErrorKind::OutOfMemory.into()),
            sys::ONSTACK_E_UNSUPPORTED => Error::Unsupported,
            sys::ONSTACK_E_VERSION => Error::Version,
            sys::ONSTACK_E_CONTEXT => Error::Context,
            sys::ONSTACK_E_CLOCK => Error::Clock,
            sys::ONSTACK_E_KINDS => Error::Kinds,
            -4095..=-1 => Error::Os(io::Error::from_raw_os_error(-code)),
            other => Error::Unknown(other),
        }
    }
}

/// Passes a count or 0 on and turns a negative result into an error.
pub(crate) fn check(code: c_int) -> Result<c_int> {
    if code < 0 {
        Err(Error::from_code(code))
    } else {
        Ok(code)
    }
}

/// The bytes that `call` writes.
///
/// # Safety
/// `call` gives both of its arguments to one function of the core and keeps neither.
pub(crate) unsafe fn written(call: impl FnOnce(sys::onstack_writer, *mut c_void) -> c_int) -> Result<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::new();
    check(call(Some(append), (&mut bytes as *mut Vec<u8>).cast()))?;
    Ok(bytes)
}

unsafe extern "C" fn append(data: *mut c_void, bytes: *const c_void, length: usize) -> c_int {
    if length == 0 {
        return 0;
    }
    // SAFETY: the vector of `written`, and as many bytes as the core says.
    let (vector, bytes) = unsafe { (&mut *data.cast::<Vec<u8>>(), slice::from_raw_parts(bytes.cast::<u8>(), length)) };
    if vector.try_reserve(length).is_err() {
        return 1;
    }
    vector.extend_from_slice(bytes);
    0
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Frequency => "frequency: give 1 to 10,000 Hz",
            Error::Options(what) => what,
            Error::Unwinder => "unwinder: give \"rules\", \"frame_pointer\" or \"pc_only\"",
            Error::Signal => {
                "signal: this one cannot be caught, is reserved, reports faults, or ends, stops or continues processes, or \
                 there is a Go runtime in the process, which needs SIGPROF: leave it at that"
            }
            Error::Sessions => "all 8 sessions are running, or the one that a heap can have: stop or drop one first",
            Error::Stopped => "the session has been stopped already",
            Error::Output(error) => return write!(f, "the profile could not be written: {error}"),
            Error::Unsupported => "not available on this system: profiling needs Linux on x86_64 or aarch64",
            Error::Version => "the crate and the libonstack that it is linked to do not fit together: build both anew",
            Error::Context => "called inside a sink, which would wait for itself: call it on another thread",
            // What the system must allow; there is nothing of C in it.
            Error::Clock => return f.write_str(&core_text(sys::ONSTACK_E_CLOCK)),
            Error::Kinds => {
                "the profile holds several kinds of samples, and folded stacks have one number: write pprof's format"
            }
            Error::Os(error) => return write!(f, "a system call failed: {error}"),
            Error::Empty => "the profile holds no samples: profile for longer, or while the program uses CPU",
            Error::Input(why) => return write!(f, "not a pprof profile: {why}"),
            Error::TooLarge => "larger than 512 MiB, as it is or unpacked: take the profile over a shorter time",
            Error::Unknown(code) => return write!(f, "error {code} of the profiler's core, which is newer than this crate"),
        })
    }
}

fn core_text(code: c_int) -> Cow<'static, str> {
    // SAFETY: the function returns for every code a static, NUL-terminated string.
    unsafe { CStr::from_ptr(sys::onstack_strerror(code)) }.to_string_lossy()
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Os(error) | Error::Output(error) => Some(error),
            _ => None,
        }
    }
}

/// For `?` on one's own files in a function that returns this crate's [`Result`].
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Os(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_core_has_a_word_and_a_text_of_rust() {
        let mut texts = Vec::new();
        for code in sys::ONSTACK_E_KINDS..=sys::ONSTACK_E_FREQUENCY {
            let error = Error::from_code(code);
            assert!(!matches!(error, Error::Unknown(_)), "{code}");
            let text = error.to_string();
            assert!(text.len() > 20 && !text.contains("onstack_") && !text.contains("onstack.h"), "{text}");
            assert!(!texts.contains(&text), "{text}");
            texts.push(text);
        }
        assert!(matches!(Error::from_code(-4200), Error::Unknown(-4200)));
    }

    #[test]
    fn a_failed_system_call_keeps_its_number() {
        match Error::from_code(-libc::EAGAIN) {
            Error::Os(error) => assert_eq!(error.raw_os_error(), Some(libc::EAGAIN)),
            other => panic!("{other:?}"),
        }
    }
}
