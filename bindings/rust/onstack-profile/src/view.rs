// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples with their names looked up once, for pages that people look at.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::by_label;
use crate::language;
pub use crate::language::Language;
use crate::message::{Location, Sample, Times};
use crate::profile::Profile;
use crate::stacks::{self, Stacks};

/// A function of some frame: what is known of it, or what stands in its place ("libc.so.6+0x12").
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function<'a> {
    /// For people.
    pub name: Cow<'a, str>,
    /// Its source file, or the file of the code where that is not known; "" where neither is.
    pub file: &'a str,
    /// As far as the profile tells.
    pub language: Language,
}

/// A sample.
pub struct Seen<'s, 'a> {
    /// Leaf first.
    pub frames: &'s [u32],
    /// The thread's name as `thread` among them.
    pub labels: &'s [(&'a str, Cow<'a, str>)],
    /// One of each of [`View::types`].
    pub values: &'s [i64],
    /// When it was taken; there may be none.
    pub times: &'s Times,
}

/// A profile's samples. Frames are indices of `functions`.
pub struct View<'a> {
    stacks: Stacks<'a>,
    /// Those of all samples.
    pub functions: Vec<Function<'a>>,
    /// Of each location, leaf first, inlined functions included.
    frames: HashMap<u64, Vec<u32>>,
    unknown: u32,
    /// Of the values, which counts ticks, and which are time.
    ticks: Option<usize>,
    durations: Vec<usize>,
}

impl<'a> View<'a> {
    /// Looks all names up.
    pub fn new(profile: &'a Profile) -> Self {
        let message = &profile.message;
        let mut made = Maker { stacks: Stacks::new(message), functions: Vec::new(), known: HashMap::new() };
        let frames = message.location.iter().map(|location| (location.id, made.frames(location))).collect();
        let unknown = made.index(stacks::UNKNOWN.into(), "", Language::Unknown);
        let types: Vec<_> = (0..message.sample_type.len()).map(|index| made.stacks.value_names(index)).collect();
        let ticks = types.iter().position(|&kind| kind == ("samples", "count"));
        let durations = (0..types.len()).filter(|&at| types[at].1 == "nanoseconds").collect();
        Self { stacks: made.stacks, functions: made.functions, frames, unknown, ticks, durations }
    }

    /// Type and unit of each of a sample's values, as `cpu` and `nanoseconds`.
    pub fn types(&self) -> Vec<(&'a str, &'a str)> {
        (0..self.stacks.profile.sample_type.len()).map(|index| self.stacks.value_names(index)).collect()
    }

    /// The one of them that the profile wants to be shown.
    pub fn default_type(&self) -> usize {
        self.stacks.default_value()
    }

    /// Where samples were taken of allocations: of one in so many bytes.
    pub fn byte_period(&self) -> Option<f64> {
        let profile = self.stacks.profile;
        let unit = profile.period_type.as_ref().map_or("", |kind| self.stacks.text(kind.unit));
        (unit == "bytes" && profile.period > 0).then_some(profile.period as f64)
    }

    /// When the profile began, in nanoseconds of Unix time; its times count from there.
    pub fn start(&self) -> i64 {
        self.stacks.profile.time_nanos
    }

    /// The name of the program that it is of; "" where it is not known.
    pub fn program(&self) -> &'a str {
        let file = self.stacks.profile.mapping.first().map_or("", |mapping| self.stacks.text(mapping.filename));
        file.rsplit('/').next().unwrap_or(file)
    }

    /// Whether it says when its samples were taken.
    pub fn has_times(&self) -> bool {
        self.stacks.profile.sample.iter().any(|sample| !sample.times.is_empty())
    }

    /// Nanoseconds that a tick of a sample stands for, where its values say so.
    pub fn tick(&self, values: &[i64]) -> Option<i64> {
        let ticks = values.get(self.ticks?).copied().filter(|&ticks| ticks > 0)?;
        let time = self.durations.iter().find_map(|&at| values.get(at).copied().filter(|&time| time > 0))?;
        Some(time / ticks)
    }

    /// Nanoseconds from one sample of a running thread to the next, where the profile says so.
    pub fn period(&self) -> Option<i64> {
        let profile = self.stacks.profile;
        let unit = profile.period_type.as_ref().map_or("", |kind| self.stacks.text(kind.unit));
        (unit == "nanoseconds" && profile.period > 0).then_some(profile.period)
    }

    /// Shows each sample.
    pub fn each(&self, mut visit: impl FnMut(&Seen<'_, 'a>)) {
        let (mut frames, mut labels) = (Vec::new(), Vec::new());
        for sample in &self.stacks.profile.sample {
            frames.clear();
            for id in &sample.location_id {
                match self.frames.get(id) {
                    Some(these) => frames.extend_from_slice(these),
                    None => frames.push(self.unknown),
                }
            }
            let kept = self.stacks.first_kept(frames.len(), |at| &self.functions[frames[at] as usize].name);
            labels.clear();
            self.labels(sample, &mut labels);
            visit(&Seen { frames: &frames[kept..], labels: &labels, values: &sample.value, times: &sample.times });
        }
    }

    fn labels(&self, sample: &Sample, labels: &mut Vec<(&'a str, Cow<'a, str>)>) {
        labels.extend(self.stacks.thread(sample).map(|name| ("thread", name.into())));
        let others = sample.label.iter().map(|label| (self.stacks.text(label.key), label));
        let others = others.filter(|(key, _)| *key != "thread");
        labels.extend(others.map(|(key, label)| (key, by_label::text(self.stacks.profile, label))));
    }
}

/// What a view is made with.
struct Maker<'a> {
    stacks: Stacks<'a>,
    functions: Vec<Function<'a>>,
    known: HashMap<(Cow<'a, str>, &'a str), u32>,
}

impl<'a> Maker<'a> {
    fn frames(&mut self, location: &'a Location) -> Vec<u32> {
        let mut found = Vec::with_capacity(location.line.len().max(1));
        self.stacks.each_line_of(location, |name, function| {
            let source = function.map_or("", |function| self.stacks.text(function.filename));
            let file = if source.is_empty() { self.stacks.mapping_file(location) } else { source };
            let language = language::of(&self.stacks, &name, Some(location), function);
            found.push((name, file, language));
        });
        found.into_iter().map(|(name, file, language)| self.index(name, file, language)).collect()
    }

    fn index(&mut self, name: Cow<'a, str>, file: &'a str, language: Language) -> u32 {
        let key = (name, file);
        if let Some(&index) = self.known.get(&key) {
            return index;
        }
        let index = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        self.functions.push(Function { name: key.0.clone(), file, language });
        self.known.insert(key, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_with_their_frames() {
        let profile = Profile::from_folded("main;f 2\nmain 1\n").unwrap();
        let view = View::new(&profile);
        let mut seen = Vec::new();
        view.each(|Seen { frames, labels, values, times }| {
            let names: Vec<_> = frames.iter().map(|&frame| view.functions[frame as usize].name.to_string()).collect();
            assert!(labels.is_empty() && times.is_empty());
            seen.push((names, values.to_vec()));
        });
        assert_eq!(seen, [(vec!["f".into(), "main".into()], vec![2]), (vec!["main".to_string()], vec![1])]);
        assert_eq!((view.types(), view.default_type()), (vec![("samples", "count")], 0));
    }
}
