// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went wrong with which file.

use std::io::{self, Write};
use std::path::Path;
use std::{fmt, fs};

/// A sentence for people that begins with the file's name.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub fn new(path: &Path, what: impl fmt::Display) -> Self {
        let name = if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() };
        Self(format!("{name}: {what}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes a whole result, to the standard output where no path is given. A reader that has seen enough and closed the
/// pipe is no failure.
pub fn write(path: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(path) = path {
        return fs::write(path, bytes).map_err(|error| Failure::new(path, format!("cannot write: {error}")));
    }
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("standard output: cannot write: {error}")))
        }
        _ => Ok(()),
    }
}
