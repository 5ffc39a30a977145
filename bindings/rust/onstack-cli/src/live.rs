// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line that changes while a program is recorded.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the preload has said last: a line `onstack.stats key=value ...`, which it replaces each second and at the end.
#[derive(Default)]
pub struct Status(BTreeMap<String, String>);

impl Status {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let words = text.strip_prefix("onstack.stats").unwrap_or_default().split_whitespace();
        let pairs = words.filter_map(|word| word.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn number(&self, key: &str) -> u64 {
        self.0.get(key).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    fn dropped(&self) -> u64 {
        self.0
            .keys()
            .filter(|key| key.starts_with("dropped_") && *key != "dropped_sink")
            .map(|key| self.number(key))
            .sum()
    }

    /// The comment of the profile.
    pub fn comment(&self) -> String {
        self.0.iter().fold("onstack.stats".to_owned(), |text, (key, value)| format!("{text} {key}={value}"))
    }

    /// Samples, rate, drops and time.
    pub fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        if !self.is_known() {
            return format!("{seconds:.0} s");
        }
        let ticks = self.number("recorded");
        let rate = ticks as f64 / seconds.max(0.001);
        let dropped = self.dropped();
        format!("{ticks} ticks, {rate:.0} a second, {dropped} dropped, {seconds:.0} s")
    }
}

/// Shown on a terminal only.
pub struct Live {
    path: PathBuf,
    shown: bool,
}

impl Live {
    pub fn new(path: PathBuf, quiet: bool) -> Self {
        Self { path, shown: !quiet && io::stderr().is_terminal() }
    }

    pub fn show(&self, elapsed: Duration) {
        if self.shown {
            let line = Status::read(&self.path).line(elapsed);
            let _ = write!(io::stderr(), "\r\x1b[Konstack: {line}").and_then(|()| io::stderr().flush());
        }
    }

    /// Takes the line away; what comes next begins at the margin.
    pub fn end(&self) -> Status {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        Status::read(&self.path)
    }
}
