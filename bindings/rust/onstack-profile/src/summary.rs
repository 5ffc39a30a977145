// SPDX-License-Identifier: MIT OR Apache-2.0
//! How good a profile is, out of the profile itself.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::message::ProfileMessage;
use crate::plain::{plain, Amount, Plain};
use crate::stacks::{is_named, Stacks};

/// How the stacks were found, what has names, what was cut and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Distinct stacks.
    pub stacks: usize,
    /// Sum over the profile.
    pub total: i64,
    /// Sum over the stacks whose leaf is a function with a name.
    pub named: i64,
    /// Sums over the stacks that do not reach their root, by the reason that they give.
    pub truncated: BTreeMap<String, i64>,
    /// Sums by the thread's name, the largest first.
    pub threads: Vec<(String, i64)>,
    /// Sums by the file that the leaf lies in, the largest first.
    pub files: Vec<(String, i64)>,
    /// Frames in the deepest stack.
    pub deepest: usize,
    /// Counters of the sessions, where the profile carries them: ours do.
    pub counters: BTreeMap<String, String>,
    /// What cut stacks, where the profile says so: the file that lost most first, with an [advice](Loss::advice).
    pub losses: Vec<Loss>,
    /// Allocators whose blocks the profile lacks, where it says so: heap profiles of the preload do.
    pub unseen: Vec<UnseenAllocator>,
    /// What the numbers mean, as `cpu`.
    pub value_type: String,
    /// Their unit, as `nanoseconds`.
    pub unit: String,
}

/// What a comment with counters begins with; `key=value` follow, with spaces between.
const COUNTERS: &str = "onstack.stats";
/// Comments with more counters, and what their names begin with here.
const MORE_COUNTERS: [(&str, &str); 5] = [
    ("onstack.heap", "heap_"),
    ("onstack.wall", "wall_"),
    ("onstack.interpreted", "interpreted_"),
    ("onstack.timeline", "timeline_"),
    ("onstack.generated", "generated_"),
];

/// The counter that ticks come to, where each thread was met.
const CPU_TIME: &str = "cpu_ns";

impl Summary {
    /// More than chance explains: three per cent, and three periods.
    fn lacks_cpu_time(&self) -> bool {
        let counter = |key| self.counters.get(key).and_then(|text| text.parse::<u64>().ok()).map(u128::from);
        let Some((ticks, period)) = counter("ticks").zip(counter("period")) else { return false };
        counter(CPU_TIME).is_some_and(|cpu| cpu > (ticks + 3) * period * 103 / 100)
    }

    pub(crate) fn new(profile: &ProfileMessage) -> Self {
        let stacks = Stacks::new(profile);
        let index = stacks.default_value();
        let (value_type, unit) = stacks.value_names(index);
        let mut summary = Self {
            stacks: profile.sample.len(),
            value_type: value_type.into(),
            unit: unit.into(),
            counters: counters(profile),
            losses: losses_of(profile.comments()),
            unseen: unseen_of(profile.comments()),
            ..Self::default()
        };
        let (mut threads, mut files): (HashMap<String, i64>, HashMap<String, i64>) = Default::default();
        for sample in &profile.sample {
            let value = sample.value.get(index).copied().unwrap_or(0);
            let names = stacks.names(sample);
            let (Some(leaf), Some(root)) = (names.first(), names.last()) else { continue };
            summary.total = summary.total.saturating_add(value);
            summary.deepest = summary.deepest.max(sample.location_id.len());
            if is_named(leaf) {
                summary.named = summary.named.saturating_add(value);
            }
            if let Some(reason) = root.strip_prefix("[truncated: ").and_then(|rest| rest.strip_suffix(']')) {
                add(summary.truncated.entry(reason.to_owned()).or_default(), value);
            }
            add(files.entry(stacks.leaf_file(sample).to_owned()).or_default(), value);
            if let Some(thread) = stacks.thread(sample) {
                add(threads.entry(thread.to_owned()).or_default(), value);
            }
        }
        (summary.threads, summary.files) = (sorted(threads), sorted(files));
        summary
    }
}

impl Summary {
    /// What helps against each reason that cut a fiftieth of the whole: less changes no picture.
    fn advise(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |value: i64| value > 0 && value.saturating_mul(50) >= self.total;
        let reasons = self.truncated.iter().filter(|(_, &value)| many(value));
        let mut advices = reasons.filter_map(|(reason, _)| Some((reason, onstack::advice(reason)?))).peekable();
        if advices.peek().is_some() {
            writeln!(f, "what helps where stacks are cut, in the code that they end in")?;
        }
        advices.try_for_each(|(reason, advice)| writeln!(f, "{:>18}  {reason}: {advice}", ""))
    }
}

fn add(sum: &mut i64, value: i64) {
    *sum = sum.saturating_add(value);
}

fn sorted(sums: HashMap<String, i64>) -> Vec<(String, i64)> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

/// `heap_untracked` is the heap's `untracked`.
fn counters(profile: &ProfileMessage) -> BTreeMap<String, String> {
    let comments = || profile.comments();
    let of = |begin, prefix: &'static str| {
        let words = comments().filter_map(move |comment| comment.strip_prefix(begin)).flat_map(str::split_whitespace);
        let pairs = words.filter_map(|word: &str| word.split_once('='));
        pairs
            .map(move |(key, value)| (format!("{prefix}{}", key.strip_prefix(prefix).unwrap_or(key)), value.to_owned()))
    };
    of(COUNTERS, "").chain(MORE_COUNTERS.into_iter().flat_map(|(begin, prefix)| of(begin, prefix))).collect()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = Amount { unit: &self.unit, total: self.total };
        let line = |value: i64| format!("{:>10} {:>6.2}%", amount.text(value), 100.0 * amount.share(value));
        writeln!(
            f,
            "{} of {} in {} stacks, at most {} frames",
            amount.text(self.total),
            Plain(&self.value_type),
            self.stacks,
            self.deepest
        )?;
        self.unseen.iter().try_for_each(|allocator| writeln!(f, "{:>18}  {allocator}", ""))?;
        writeln!(f, "{}  leaf has a name", line(self.named))?;
        let cut = self.truncated.values().copied().fold(0, i64::saturating_add);
        writeln!(f, "{}  stack reaches its root", line(self.total.saturating_sub(cut)))?;
        for (reason, &value) in &self.truncated {
            writeln!(f, "{}  cut: {}", line(value), Plain(reason))?;
        }
        // Where files are known to cut, the advice stands with them.
        if self.losses.is_empty() {
            self.advise(f)?;
        }
        for (title, sums) in [("by thread", &self.threads), ("by file of the leaf", &self.files)] {
            if !sums.is_empty() {
                writeln!(f, "{title}")?;
            }
            for (name, value) in sums.iter().take(10) {
                writeln!(f, "{}  {}", line(*value), Plain(name))?;
            }
            if sums.len() > 10 {
                writeln!(f, "{:>18}  {} more", "", sums.len() - 10)?;
            }
        }
        if !self.losses.is_empty() {
            writeln!(f, "samples cut behind code of a file, and what helps")?;
        }
        self.losses.iter().try_for_each(|module| writeln!(f, "{:>18}  {module}", module.lost))?;
        if self.counters.is_empty() {
            return writeln!(f, "counters: none in this profile; whoever wrote it added none");
        }
        writeln!(f, "counters, in ticks unless it says otherwise")?;
        self.counters.iter().try_for_each(|(key, value)| writeln!(f, "{:>18}  {}", plain(value), Plain(key)))?;
        let lost = self.counters.iter().filter(|(_, value)| value.parse().is_ok_and(|value: u64| value > 0));
        let lost = lost.filter(|(key, _)| *key != CPU_TIME || self.lacks_cpu_time());
        let mut advices = lost.filter_map(|(key, _)| Some((key, onstack::advice(key)?)));
        advices.try_for_each(|(key, advice)| writeln!(f, "{key}: {advice}"))
    }
}

/// A program or library that cut stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// As the loader names it; empty for code in no file (generated at run time).
    pub path: String,
    /// Stacks that were cut behind a frame that lies there.
    pub lost: u64,
    /// What would keep most of them.
    pub advice: Option<&'static str>,
}

/// What a comment about one module begins with; `key=value` follow with spaces between, and the path at the end.
const MODULE: &str = "onstack.module";

impl Loss {
    fn parse(comment: &str) -> Option<Self> {
        let (counts, path) = comment.strip_prefix(MODULE)?.split_once("path=")?;
        let mut loss = Self { path: unescape(path), ..Self::default() };
        let mut most = 0;
        for (key, value) in counts.split_whitespace().filter_map(|word| word.split_once('=')) {
            let value = value.parse().ok()?;
            if key == "lost" {
                loss.lost = value;
            } else if value > most {
                if let Some(advice) = onstack::advice(key) {
                    (most, loss.advice) = (value, Some(advice));
                }
            }
        }
        Some(loss).filter(|loss| loss.lost > 0)
    }
}

/// `/usr/lib/x.so: what to do`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "code generated at run time" } else { &self.path };
        write!(f, "{}: {}", Plain(path), self.advice.unwrap_or("nothing was lost there"))
    }
}

/// The core writes a byte that is no plain text as `\ooo`, in octal.
fn unescape(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..3).filter(|digits| !digits.starts_with('+'));
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            bytes.extend(&part.as_bytes()[3..]);
        } else {
            bytes.push(b'\\');
            bytes.extend(part.as_bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The modules that a profile's comments name, those that lost most first.
fn losses_of<'a>(comments: impl Iterator<Item = &'a str>) -> Vec<Loss> {
    let mut losses: Vec<_> = comments.filter_map(Loss::parse).collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.lost));
    losses
}

/// What such a comment begins with (core/preload/allocator.h).
const UNSEEN: &str = "onstack.unseen function=";

/// A function of the profiled program that allocates without malloc. A heap profile of the preload lacks its blocks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct UnseenAllocator {
    /// As `_rjem_malloc`, which is jemalloc's in a Rust program, `mi_malloc` or `operator new`.
    pub function: String,
    /// The file of the program or library that defines it.
    pub path: String,
}

impl UnseenAllocator {
    fn parse(comment: &str) -> Option<Self> {
        let (function, path) = comment.strip_prefix(UNSEEN)?.split_once(" path=")?;
        Some(Self { function: function.to_owned(), path: path.to_owned() })
    }
}

pub(crate) fn unseen_of<'a>(comments: impl Iterator<Item = &'a str>) -> Vec<UnseenAllocator> {
    let mut allocators: Vec<_> = comments.filter_map(UnseenAllocator::parse).collect();
    allocators.sort();
    allocators.dedup();
    allocators
}

/// What is missing, and what helps.
impl fmt::Display for UnseenAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this profile lacks the memory of {} in {}, which allocates without malloc: in Rust wrap the global allocator in \
             onstack::heap::Allocator and profile from inside, or build the program with the system's allocator",
            Plain(&self.function),
            Plain(&self.path)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    #[cfg_attr(miri, ignore)] // it asks the core
    fn where_much_is_cut_the_text_says_what_helps() {
        let few = "main;f 99\n[truncated: no unwind information];g 1\n";
        assert!(!Profile::from_folded(few).unwrap().summary().to_string().contains("what helps"));
        // The core has a word for each reason, and so has this page.
        for reason in [
            "deeper than the maximal depth",
            "unreadable stack memory",
            "misaligned frame pointer",
            "frame pointer does not rise",
            "no return address",
            "switch of stacks",
            "no unwind information",
            "unwind information not read yet",
            "by the unwinder",
        ] {
            let text = format!("main;f 1\n[truncated: {reason}];g 4\n");
            let text = Profile::from_folded(&text).unwrap().summary().to_string();
            assert!(text.contains("what helps") && text.contains(&format!("  {reason}: ")), "{text}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it asks the core
    fn time_that_no_tick_stands_for_is_told() {
        let text = |counters: &str| {
            let mut profile = Profile::from_folded("main;f 6\n").unwrap();
            profile.add_comment(&format!("onstack.stats {counters}"));
            profile.summary().to_string()
        };
        let told = "cpu_ns: it is more than ticks * period";
        assert!(!text("ticks=100 period=10000000 cpu_ns=1050000000").contains(told));
        assert!(text("ticks=100 period=10000000 cpu_ns=1080000000").contains(told));
        assert!(!text("ticks=100 period=10000000").contains(told));
    }

    #[test]
    #[cfg_attr(miri, ignore)] // it asks the core
    fn what_was_cut_and_what_has_names() {
        let text = "main;f 6\nmain;libc.so.6+0x12 3\n[truncated: unreadable stack memory];g 1\n";
        let mut profile = Profile::from_folded(text).unwrap();
        profile.add_comment("onstack.stats ticks=12 recorded=10 dropped_ring_full=2 blocked=0");
        assert!(!profile.summary().to_string().contains("let them take it"));
        profile.add_comment("onstack.heap untracked=7 reused=0");
        assert!(profile.summary().to_string().contains("heap_untracked: sampled blocks without a place"));
        profile.add_comment("onstack.timeline kept=9 lost=3");
        assert!(profile.summary().to_string().contains("timeline_lost: samples whose time found no room"));
        profile.add_comment("onstack.generated replaced=2");
        assert!(profile.summary().to_string().contains("generated_replaced: addresses of generated code"));
        profile.add_comment("onstack.wall rounds=50 looks=200 moved=4 refused=5");
        profile.add_comment("onstack.interpreted samples=8 interpreted_cut=2 interpreted_unmatched=1");
        profile.add_comment("onstack.stats blocked=1");
        let summary = profile.summary();
        assert_eq!((summary.stacks, summary.total, summary.named, summary.deepest), (3, 10, 7, 2));
        assert_eq!(summary.truncated["unreadable stack memory"], 1);
        assert_eq!(summary.counters["dropped_ring_full"], "2");
        assert_eq!((&*summary.counters["wall_refused"], &*summary.counters["wall_moved"]), ("5", "4"));
        assert_eq!((&*summary.counters["interpreted_samples"], &*summary.counters["interpreted_cut"]), ("8", "2"));
        let text = summary.to_string();
        for part in [
            "90.00%  stack reaches",
            "70.00%  leaf has a name",
            "cut: unreadable",
            "12  ticks",
            "let them take it",
            "dropped_ring_full: ticks that found the buffer full: raise buffer_bytes",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn tables_and_summaries_name_allocators_that_were_not_seen() {
        let mut profile = Profile::from_folded("main;f 1\n").unwrap();
        assert!(profile.summary().unseen.is_empty() && profile.top().unseen.is_empty());
        let lines = ["_rjem_malloc path=/srv/a b", "mi_malloc path=/srv/c", "mi_malloc path=/srv/c", "odd"];
        lines.iter().for_each(|line| profile.add_comment(&format!("onstack.unseen function={line}")));
        let (summary, top) = (profile.summary(), profile.top());
        let named: Vec<_> = summary.unseen.iter().map(|one| (one.function.as_str(), one.path.as_str())).collect();
        assert_eq!(named, [("_rjem_malloc", "/srv/a b"), ("mi_malloc", "/srv/c")]);
        for text in [summary.to_string(), top.to_string()] {
            assert!(text.contains("lacks the memory of _rjem_malloc in /srv/a b, which allocates"), "{text}");
            assert_eq!(text.matches("lacks the memory of").count(), 2, "{text}");
        }
    }

    #[test]
    fn comments_are_read_by_what_was_lost() {
        let comments = [
            "onstack.stats ticks=1",
            "onstack.module",
            "onstack.module lost=x path=y",
            "onstack.module lost=3 no_rule=2 misaligned=1 path=/opt/a b/path=c.so",
            "onstack.module lost=9 bad_return=9 new_key=1 path=",
            r"onstack.module lost=1 path=/a\012\134\377\9\777\+12\",
        ];
        let loss = |path: &str, lost, key| Loss { path: path.into(), lost, advice: onstack::advice(key) };
        let strange = loss("/a\n\\\u{fffd}\\9\\777\\+12\\", 1, "");
        let some = loss("/opt/a b/path=c.so", 3, "no_rule");
        assert_eq!(losses_of(comments.into_iter()), [loss("", 9, "bad_return"), some.clone(), strange]);
        assert!(some.to_string().starts_with("/opt/a b/path=c.so: parts of it have no unwind"), "{some}");
    }
}
