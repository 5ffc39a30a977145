// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of generated code, as compilers at run time write them for `perf`: lines `start size name` in hexadecimal in
//! `/tmp/perf-PID.map`. Later lines are newer: they win where code was replaced.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// By start: end and name. No two overlap.
#[derive(Default)]
pub(crate) struct PerfMap(BTreeMap<u64, (u64, String)>);

impl PerfMap {
    /// The map of this process; empty where there is none. Everybody may write to that directory: a file that belongs to
    /// somebody else is not read.
    pub(crate) fn of_this_process() -> Self {
        let path = format!("/tmp/perf-{}.map", std::process::id());
        let path = Path::new(&path);
        // SAFETY: asks for a number.
        let user = unsafe { libc::geteuid() };
        let own = fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.uid() == user);
        if own {
            fs::read(path).map_or_else(|_| Self::default(), |text| Self::parse(&String::from_utf8_lossy(&text)))
        } else {
            Self::default()
        }
    }

    fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, ' ');
            let mut number = || u64::from_str_radix(parts.next()?.trim_start_matches("0x"), 16).ok();
            let (Some(start), Some(size)) = (number(), number()) else { continue };
            if let (Some(end), Some(name)) = (start.checked_add(size), parts.next()) {
                map.add(start, end, name.trim());
            }
        }
        map
    }

    fn add(&mut self, start: u64, end: u64, name: &str) {
        if start >= end || name.is_empty() {
            return;
        }
        let replaced: Vec<u64> =
            self.0.range(..end).rev().take_while(|(_, (old, _))| *old > start).map(|(&key, _)| key).collect();
        for key in replaced {
            self.0.remove(&key);
        }
        self.0.insert(start, (end, name.to_owned()));
    }

    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some(name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_inside_their_range_and_newer_ones_win() {
        let map =
            PerfMap::parse("1000 10 first\n1010 20 second name\nnonsense\n1018 8 third\n0x2000 0x10 hex\n5 0 empty\n");
        let found = [0xfff, 0x1000, 0x100f, 0x1010, 0x1018, 0x1020, 0x200f].map(|address| map.find(address));
        assert_eq!(found, [None, Some("first"), Some("first"), None, Some("third"), None, Some("hex")]);
    }
}
