// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line that changes while a program is recorded, and with it the functions that spent most.

pub mod panel;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::terminal;
use panel::Panel;

/// What the preload has said last: a line `onstack.stats key=value ...`, which it replaces each second and at the end; then
/// a line `onstack.module ...` for each library that cut stacks may follow.
#[derive(Default)]
pub struct Status {
    counters: BTreeMap<String, String>,
    modules: Vec<String>,
}

impl Status {
    pub fn read(path: &Path) -> Self {
        Self::parse(&fs::read(path).unwrap_or_default())
    }

    /// The sums over all processes that have a file there: `path` with the process id behind it.
    fn read_each(path: &Path) -> Self {
        let mut sum = Self::default();
        for (file, _) in files(path) {
            let one = Self::read(&file);
            for (key, value) in one.counters {
                let known = sum.counters.entry(key).or_insert_with(|| "0".into());
                match known.parse::<u64>().ok().zip(value.parse::<u64>().ok()) {
                    Some((a, b)) => *known = a.saturating_add(b).to_string(),
                    None => *known = value,
                }
            }
        }
        sum
    }

    /// Each line by itself: a library's name that is no text costs only its own characters.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut lines = bytes.split(|&byte| byte == b'\n').map(String::from_utf8_lossy);
        let first = lines.next().unwrap_or_default();
        let first = first.strip_prefix("onstack.stats").unwrap_or_default();
        let pairs = first.split_whitespace().filter_map(|word| word.split_once('='));
        Self {
            counters: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            modules: lines
                .filter(|line| ["onstack.heap ", "onstack.module "].iter().any(|key| line.starts_with(key)))
                .map(Cow::into_owned)
                .collect(),
        }
    }

    fn number(&self, key: &str) -> u64 {
        self.counters.get(key).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub fn is_known(&self) -> bool {
        !self.counters.is_empty()
    }

    pub fn has_samples(&self) -> bool {
        self.number("samples") > 0
    }

    fn dropped(&self) -> u64 {
        self.counters
            .keys()
            .filter(|key| key.starts_with("dropped_") && *key != "dropped_sink")
            .fold(0, |sum, key| sum.saturating_add(self.number(key)))
    }

    pub fn is_of_heap(&self) -> bool {
        self.counters.get("clock").is_some_and(|clock| clock == "heap")
    }

    /// The comments of the profile.
    pub fn comments(&self) -> Vec<String> {
        let counters = self.counters.iter();
        let first = counters.fold("onstack.stats".to_owned(), |text, (key, value)| format!("{text} {key}={value}"));
        std::iter::once(first).chain(self.modules.iter().cloned()).collect()
    }

    /// Samples, rate, drops and time.
    pub fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        if !self.is_known() {
            return format!("{seconds:.1} s");
        }
        let ticks = self.number("recorded");
        let rate = ticks as f64 / seconds.max(0.001);
        let dropped = self.dropped();
        if self.is_of_heap() {
            let samples = self.number("samples");
            return format!("{samples} samples of {ticks} allocations, {dropped} dropped, {seconds:.1} s");
        }
        format!("{ticks} ticks, {rate:.0} a second, {dropped} dropped, {seconds:.1} s")
    }
}

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

/// The files beside `path` that have its name with a dot and a process id behind it, by that id.
pub fn files(path: &Path) -> Vec<(PathBuf, u32)> {
    let (Some(place), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let process = |file: &PathBuf| file.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('.')?.parse().ok();
    let files = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<(PathBuf, u32)> = files.filter_map(|file| process(&file).map(|id| (file, id))).collect();
    files.sort_by_key(|(_, process)| *process);
    files
}
