// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples in the order of time, thread by thread, for viewers that draw when things happen.

pub mod chrome;
pub mod firefox;
mod marks;

use std::borrow::Cow;
use std::collections::BTreeMap;

use onstack::view::{Function, Seen, View};
use onstack::Profile;

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

/// A thread of a process; where the profile does not tell threads or processes apart, what it calls so.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    pub process: String,
    pub process_id: u32,
    pub id: u32,
    pub name: String,
}

pub struct Timeline<'a> {
    pub functions: Vec<Function<'a>>,
    pub stacks: Vec<Stack<'a>>,
    /// By process and thread, their points by time.
    pub threads: BTreeMap<Thread, Vec<Point>>,
    /// When the profile began, in nanoseconds of Unix time.
    pub start: i64,
    /// The name of what ran.
    pub program: &'a str,
    /// Nanoseconds from one sample to the next while a thread runs.
    pub period: i64,
    /// Whether samples are of CPU time, and so of threads that run.
    pub is_cpu: bool,
}

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
            threads: BTreeMap::new(),
            start: view.start(),
            program: view.program(),
            period: i64::MAX,
            is_cpu: name == "cpu",
        };
        view.each(|seen| {
            let is_shown = seen.values.get(shown).is_some_and(|&value| value > 0);
            if let (true, Some(tick)) = (is_shown && !seen.times.is_empty(), view.tick(seen.values)) {
                timeline.add(seen, tick);
            }
        });
        timeline.functions = view.functions;
        for points in timeline.threads.values_mut() {
            points.sort_by_key(|point| point.at);
            end_waits_in_time(&timeline.stacks, points);
        }
        timeline.period = timeline.period.clamp(1, 1_000_000_000);
        Ok(timeline)
    }

    fn add(&mut self, seen: &Seen<'_, 'a>, each: i64) {
        self.period = self.period.min(each.max(1));
        let stack = self.stacks.len();
        let points = self.threads.entry(thread(seen)).or_default();
        points.extend(seen.times.iter().map(|moment| Point {
            at: moment.at.saturating_mul(1000),
            lasts: each.saturating_mul(i64::try_from(moment.weight).unwrap_or(i64::MAX)),
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
        self.label("state").map_or(true, |state| state == "running")
    }
}

/// A thread that waits is looked at from outside, and so may have run on for up to a period before its sample; one that runs
/// is met by a tick of its own.
fn end_waits_in_time(stacks: &[Stack<'_>], points: &mut [Point]) {
    for next in 1..points.len() {
        let begin = points[next].at.saturating_sub(points[next].lasts);
        let (runs, point) = (stacks[points[next].stack].runs(), &mut points[next - 1]);
        if runs && begin < point.at && !stacks[point.stack].runs() {
            let early = (point.at - begin).min(point.lasts);
            point.at -= early;
            point.lasts -= early;
        }
    }
}

fn thread(seen: &Seen<'_, '_>) -> Thread {
    let text = |key: &str| seen.labels.iter().find(|(known, _)| *known == key).map_or("", |(_, value)| value);
    let number = |key: &str| text(key).parse().unwrap_or(0);
    Thread {
        process: text("process").to_owned(),
        process_id: number("process_id"),
        id: number("thread_id"),
        name: text("thread").to_owned(),
    }
}

impl Thread {
    /// For people; never empty.
    pub fn title(&self) -> &str {
        if self.name.is_empty() {
            "[unnamed thread]"
        } else {
            &self.name
        }
    }

    /// For people.
    pub fn process_title<'t>(&'t self, timeline: &Timeline<'t>) -> &'t str {
        if self.process.is_empty() {
            timeline.program
        } else {
            &self.process
        }
    }
}
