// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something could not begin.

use std::{error, fmt, io};

/// Why a [`Handler`](crate::HandlerOptions) or a [`Pusher`](crate::PushOptions) could not be made. The texts say what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An option has a value that it cannot have.
    Option {
        /// The option, as `PushOptions::interval`.
        name: &'static str,
        /// What it should be.
        text: String,
    },
    /// The profile could not be started.
    Profile(onstack::Error),
    /// The system refused what is needed: a thread, or its certificate authorities.
    Os(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Option { name, text } => write!(f, "{name}: {text}"),
            Error::Profile(error) => error.fmt(f),
            Error::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Option { .. } => None,
            Error::Profile(error) => Some(error),
            Error::Os(error) => Some(error),
        }
    }
}

impl From<onstack::Error> for Error {
    fn from(error: onstack::Error) -> Self {
        Error::Profile(error)
    }
}
