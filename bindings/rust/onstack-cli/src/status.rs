// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the preload tells of a program while it runs, in a file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the preload has said last: a line `onstack.stats key=value ...`, which it replaces each second and at the end; then
/// others may follow: `onstack.heap`, `onstack.wall`, `onstack.interpreted`, and `onstack.module` for each library that cut stacks.
#[derive(Default)]
pub struct Status {
    counters: BTreeMap<String, String>,
    more: Vec<String>,
}

impl Status {
    pub fn read(path: &Path) -> Self {
        Self::parse(&fs::read(path).unwrap_or_default())
    }

    /// The sums over all processes that have a file there: `path` with the process id behind it.
    pub fn read_each(path: &Path) -> Self {
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
            more: lines.filter(|line| line.starts_with("onstack.")).map(Cow::into_owned).collect(),
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
        std::iter::once(first).chain(self.more.iter().cloned()).collect()
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
