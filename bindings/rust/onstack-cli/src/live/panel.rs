// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that spent most so far, in the last rows of the terminal: what the program writes scrolls above them.

use std::fs;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use onstack_profile::Profile;

use crate::terminal;

/// The line of counters, a headline, and ten functions.
const ROWS: usize = 12;
/// A fiftieth of the time goes into reading at most.
const SHARE: u32 = 50;
/// What the program writes has at least so many.
const LEAST_ABOVE: usize = 6;

pub struct Panel {
    /// Where the preload saves the profile now and then.
    profile: PathBuf,
    saved: Option<SystemTime>,
    table: Vec<String>,
    /// It is not read again before: a large profile takes its time, beside the program.
    not_before: Option<Instant>,
    /// Rows and columns of the terminal, when the panel was made room for in it.
    size: Option<(usize, usize)>,
}

/// With cursor and attributes saved and put back.
fn apart(text: &str) -> String {
    format!("\x1b7{text}\x1b8")
}

/// The rows from the top to this one scroll; all of them for nothing. Sets the cursor into the corner.
fn scrolling(to: Option<usize>) -> String {
    to.map_or_else(|| "\x1b[r".into(), |row| format!("\x1b[1;{row}r"))
}

impl Panel {
    pub fn new(profile: PathBuf) -> Self {
        Self { profile, saved: None, table: Vec::new(), not_before: None, size: None }
    }

    /// What the terminal is to be sent, so that it shows the line and the table; nothing where it is too small.
    pub fn drawn(&mut self, line: &str) -> Option<String> {
        let size = terminal::size(libc::STDERR_FILENO)?;
        if size.0 < ROWS + LEAST_ABOVE {
            return self.size.is_some().then(|| self.closed());
        }
        self.read();
        let mut text = String::new();
        if self.size != Some(size) {
            // Room below the cursor, wherever that is: it stays in its column.
            text += &format!("{}\x1b[{ROWS}A", "\x1bD".repeat(ROWS));
            self.size = Some(size);
        }
        // Each time: who had the terminal meanwhile, as a shell, may have changed it.
        text += &apart(&scrolling(Some(size.0 - ROWS)));
        let lines = std::iter::once(line).chain(self.table.iter().map(String::as_str)).chain(std::iter::repeat(""));
        let shown: String = lines
            .take(ROWS)
            .zip(size.0 - ROWS + 1..)
            .map(|(line, row)| format!("\x1b[{row};1H\x1b[K{}", shortened(line, size.1)))
            .collect();
        text += &apart(&shown);
        Some(text)
    }

    /// What gives the rows back.
    pub fn closed(&mut self) -> String {
        let Some(size) = self.size.take() else { return String::new() };
        let whole = apart(&scrolling(None));
        // In a terminal of another size the rows lie nobody knows where.
        if terminal::size(libc::STDERR_FILENO) != Some(size) {
            return whole;
        }
        format!("{whole}{}", apart(&format!("\x1b[{};1H\x1b[J", size.0 - ROWS + 1)))
    }

    pub fn is_open(&self) -> bool {
        self.size.is_some()
    }

    /// The table anew, where the profile has been saved anew.
    fn read(&mut self) {
        let Ok(saved) = fs::metadata(&self.profile).and_then(|file| file.modified()) else { return };
        let begun = Instant::now();
        if self.saved == Some(saved) || self.not_before.is_some_and(|then| begun < then) {
            return;
        }
        self.saved = Some(saved);
        // It is replaced as a whole; one that cannot be read is told of at the end.
        let profile = fs::File::open(&self.profile).ok().and_then(|file| Profile::read(file).ok());
        if let Some(profile) = profile {
            self.table = lines(&profile);
        }
        self.not_before = Some(begun + SHARE * begun.elapsed());
    }
}

/// A line that were longer would take the next row as well.
fn shortened(line: &str, columns: usize) -> String {
    terminal::shortened(line, columns).chars().take(columns).collect()
}

/// A headline and functions.
fn lines(profile: &Profile) -> Vec<String> {
    let text = format!("{:.*}", ROWS - 2, profile.top());
    text.lines().skip_while(|line| !line.ends_with("  name")).take(ROWS - 1).map(str::to_owned).collect()
}

/// At the end it is told where there is no terminal, too.
pub fn tell(profile: &Profile) {
    let columns = terminal::size(libc::STDERR_FILENO).map_or(usize::MAX, |(_, columns)| columns);
    lines(profile).iter().for_each(|line| eprintln!("{}", terminal::shortened(line, columns)));
}
