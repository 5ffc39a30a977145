// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line that changes while a program is recorded, and with it the functions that spent most.

pub mod panel;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::status::Status;
use crate::terminal;
use panel::Panel;

/// Shown on a terminal only.
pub struct Live {
    path: PathBuf,
    each: bool,
    shown: bool,
    panel: Option<Panel>,
}

impl Live {
    /// `each`: `path` is followed by the ids of processes. `profile`: the functions of what is saved there are shown too.
    pub fn new(path: PathBuf, each: bool, quiet: bool, profile: Option<PathBuf>) -> Self {
        let shown = !quiet && io::stderr().is_terminal();
        Self { path, each, shown, panel: profile.filter(|_| shown).map(Panel::new) }
    }

    pub fn show(&mut self, elapsed: Duration) {
        // A program that takes letters one by one draws the screen by itself.
        if self.shown && terminal::takes_lines(libc::STDERR_FILENO) {
            let line = format!("onstack: {}", self.status().line(elapsed));
            let panel = self.panel.as_mut().and_then(|panel| panel.drawn(&line));
            send(&panel.unwrap_or_else(|| format!("\r\x1b[K{line}")));
        }
    }

    /// Takes them away; what comes next begins at the margin.
    pub fn end(&mut self) -> Status {
        self.close();
        self.status()
    }

    fn close(&mut self) {
        match self.panel.as_mut().filter(|panel| panel.is_open()) {
            // Above the panel is what the program wrote last.
            Some(panel) => send(&format!("{}\r\n", panel.closed())),
            None if self.shown => send("\r\x1b[K"),
            None => {}
        }
        self.shown = false;
        self.panel = None;
    }

    fn status(&self) -> Status {
        if self.each {
            Status::read_each(&self.path)
        } else {
            Status::read(&self.path)
        }
    }
}

/// Whatever ends this program gives the terminal back.
impl Drop for Live {
    fn drop(&mut self) {
        self.close();
    }
}

/// As a whole: the program writes to the same terminal.
fn send(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes()).and_then(|()| io::stderr().flush());
}
