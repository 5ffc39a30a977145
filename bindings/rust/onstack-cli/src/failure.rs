// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went wrong with which file, and the code that the program ends with.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use onstack_profile::Plain;

/// A sentence for people that begins with the file's name.
#[derive(Debug)]
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// Of this program: code 1.
    pub fn new(path: &Path, what: impl fmt::Display) -> Self {
        let name = if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() };
        Self { text: format!("{name}: {what}"), code: 1 }
    }

    /// Of the program that should be run, with the code that a shell gives it: 126 for one that cannot be run like
    /// this, 127 for one that is not there.
    pub fn of_program(path: &Path, code: u8, what: impl fmt::Display) -> Self {
        Self { code, ..Self::new(path, what) }
    }

    /// Of arguments that do not go together: code 2, as for those that cannot be read.
    pub fn of_arguments(what: impl fmt::Display) -> Self {
        Self { text: what.to_string(), code: 2 }
    }

    /// The same with more behind it.
    pub fn and(mut self, what: impl fmt::Display) -> Self {
        self.text += &format!("; {what}");
        self
    }

    pub fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// On one line: it quotes names from files that anybody made.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Plain(&self.text).fmt(f)
    }
}
