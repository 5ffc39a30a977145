// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples in the order of time, thread by thread, for viewers that draw when things happen.

pub mod firefox;
mod marks;

use std::borrow::Cow;
use std::collections::BTreeMap;

use onstack_profile::view::{Function, Seen, View};
use onstack_profile::Profile;

/// A sample: what a thread did until `at`.
pub struct Point {
    /// Nanoseconds since the profile's start.
    pub at: i64,
    /// The time that it stands for, in nanoseconds.
    pub lasts: i64,
    pub weight: u64,
    /// Its stack's place in [`Timeline::stacks`].
    pub stack: usize,
}

/// Frames, root first, and labels of samples that are alike in both.
pub struct Stack<'a> {
    pub frames: Vec<u32>,
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
}

/// What a thread did.
pub struct Track {
    pub process: String,
    /// 0 where it is not known.
    pub process_id: u32,
    /// No other track of the process has it: the kernel's number, or one of ours where that is not known.
    pub id: u32,
    /// Never empty.
    pub name: String,
    /// As far as is known, the one that the process began with.
    pub is_first: bool,
    /// By time.
    pub points: Vec<Point>,
}

/// What tells threads apart: a name does only where there is no number, as it may change.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    process: String,
    process_id: u32,
    id: u32,
    name: String,
}

/// Of one key: the names that were seen, and how often.
#[derive(Default)]
struct Met {
    names: BTreeMap<String, usize>,
    points: Vec<Point>,
}

pub struct Timeline<'a> {
    pub functions: Vec<Function<'a>>,
    pub stacks: Vec<Stack<'a>>,
    /// By process and number.
    pub tracks: Vec<Track>,
    /// When the profile began, in nanoseconds of Unix time.
    pub start: i64,
    /// The name of what ran.
    pub program: &'a str,
    /// Nanoseconds from one sample to the next while a thread runs.
    pub period: i64,
    /// Whether samples are of CPU time, and so of threads that run.
    pub is_cpu: bool,
}

/// Of profiles that do not say it: a hundred a second.
const USUAL_PERIOD: i64 = 10_000_000;
const MOST_PERIOD: i64 = 1_000_000_000;
/// Differences of times and durations that are no larger have room: 36 years.
const LARGEST: i64 = 1 << 60;

/// What a thread is, and no label of its work.
const IDENTITY: [&str; 4] = ["thread", "thread_id", "process", "process_id"];

impl<'a> Timeline<'a> {
    /// Of the value that the profile shows.
    ///
    /// # Errors
    /// What is missing in it, for people.
    pub fn new(profile: &'a Profile) -> Result<Self, String> {
        let view = View::new(profile);
        if !view.has_times() && profile.summary().stacks > 0 {
            return Err("it does not say when its samples were taken: record it with --timeline".into());
        }
        let shown = view.default_type();
        let types = view.types();
        let (name, unit) = types.get(shown).copied().unwrap_or_default();
        if unit != "nanoseconds" {
            return Err(format!("its {name} is no time; choose another by --sample-type"));
        }
        let mut timeline = Self {
            functions: Vec::new(),
            stacks: Vec::new(),
            tracks: Vec::new(),
            start: view.start(),
            program: view.program(),
            period: view.period().unwrap_or(USUAL_PERIOD).clamp(1, MOST_PERIOD),
            is_cpu: name == "cpu",
        };
        let mut met = BTreeMap::<Key, Met>::new();
        view.each(|seen| {
            let is_shown = seen.values.get(shown).is_some_and(|&value| value > 0);
            if let (true, Some(tick)) = (is_shown && !seen.times.is_empty(), view.tick(seen.values)) {
                timeline.add(seen, tick, &mut met);
            }
        });
        timeline.functions = view.functions;
        timeline.tracks = tracks(met, &timeline.stacks);
        Ok(timeline)
    }

    fn add(&mut self, seen: &Seen<'_, 'a>, each: i64, met: &mut BTreeMap<Key, Met>) {
        let stack = self.stacks.len();
        let (key, name) = key(seen);
        let thread = met.entry(key).or_default();
        *thread.names.entry(name).or_default() += seen.times.iter().count();
        thread.points.extend(seen.times.iter().map(|moment| Point {
            at: moment.at.saturating_mul(1000).clamp(-LARGEST, LARGEST),
            lasts: each.saturating_mul(i64::try_from(moment.weight).unwrap_or(i64::MAX)).clamp(0, LARGEST),
            weight: moment.weight,
            stack,
        }));
        let labels = seen.labels.iter().filter(|(key, _)| !IDENTITY.contains(key)).cloned().collect();
        self.stacks.push(Stack { frames: seen.frames.iter().rev().copied().collect(), labels });
    }
}

impl Timeline<'_> {
    /// Samples that are alike are of one span where so many nanoseconds lie between them at most: a tick comes late, and another
    /// thread's turn on the processor is short.
    pub fn apart(&self) -> i64 {
        3 * self.period
    }
}

impl Stack<'_> {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value)
    }

    /// Whether it was met on a processor: that of a profile of real time says so.
    pub fn runs(&self) -> bool {
        self.label("state").is_none_or(|state| state == "running")
    }
}

/// A thread is in one state at a time, and one that runs is met by a tick of its own. How long another has waited is known
/// later: its sample ends where what comes next begins.
fn end_waits_in_time(stacks: &[Stack<'_>], points: &mut [Point]) {
    let mut next = i64::MAX;
    for point in points.iter_mut().rev() {
        if !stacks[point.stack].runs() {
            point.at = point.at.min(next);
        }
        next = (point.at - point.lasts).max(-LARGEST);
    }
    points.sort_by_key(|point| point.at);
}

fn key(seen: &Seen<'_, '_>) -> (Key, String) {
    let text = |key: &str| seen.labels.iter().find(|(known, _)| *known == key).map_or("", |(_, value)| value);
    let number = |key: &str| text(key).parse().unwrap_or(0);
    let (id, name) = (number("thread_id"), text("thread"));
    let apart = if id == 0 { name } else { "" };
    let process = text("process").to_owned();
    (Key { process, process_id: number("process_id"), id, name: apart.to_owned() }, name.to_owned())
}

fn tracks(met: BTreeMap<Key, Met>, stacks: &[Stack<'_>]) -> Vec<Track> {
    let mut tracks = Vec::<Track>::new();
    // The kernel's numbers end at 1 << 22.
    let mut invented = 1 << 30;
    let mut has_first = false; // of the process
    for (key, Met { names, mut points }) in met {
        points.sort_by_key(|point| point.at);
        // Several threads may have one name.
        if key.id != 0 {
            end_waits_in_time(stacks, &mut points);
        }
        let name = names.into_iter().max_by_key(|(_, count)| *count).map_or_else(String::new, |(name, _)| name);
        let name = if name.is_empty() { "[unnamed thread]".into() } else { name };
        let last = tracks.last().filter(|track| (&track.process, track.process_id) == (&key.process, key.process_id));
        has_first &= last.is_some();
        // Processes number their first thread as themselves; where that is not said, it has mostly the lowest number.
        let is_first = key.id != 0 && (key.id == key.process_id || (key.process_id == 0 && !has_first));
        has_first |= is_first;
        let id = if key.id == 0 { invented } else { key.id };
        invented += u32::from(key.id == 0);
        tracks.push(Track { process: key.process, process_id: key.process_id, id, name, is_first, points });
    }
    number_processes(&mut tracks);
    tracks
}

/// Where a process's number is not said, that of its first thread is taken for it.
fn number_processes(tracks: &mut [Track]) {
    for process in tracks.chunk_by_mut(|a, b| (&a.process, a.process_id) == (&b.process, b.process_id)) {
        let first = process.iter().find(|track| track.is_first).map_or(0, |track| track.id);
        process.iter_mut().filter(|track| track.process_id == 0).for_each(|track| track.process_id = first);
    }
}

impl Track {
    /// For people.
    pub fn process_title<'t>(&'t self, timeline: &Timeline<'t>) -> &'t str {
        if self.process.is_empty() {
            timeline.program
        } else {
            &self.process
        }
    }
}
