// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of several processes in one: `onstack record --children=merge`.

use std::collections::HashMap;

use crate::message::{Function, Interner, Label, Line, Location, Mapping, ProfileMessage, Sample};
use crate::profile::Profile;
use onstack::{Error, Result};

/// Mapping, address, and the function and line of each inlined frame.
type Place = (u64, u64, Vec<(u64, i64)>);

/// Puts profiles together. Each sample says by labels which process it is of: `process`, the program's name, and
/// `process_id`.
#[derive(Default)]
pub struct Merge {
    message: ProfileMessage,
    strings: Interner,
    mappings: HashMap<(i64, i64, u64, u64), (u64, u64)>,
    functions: HashMap<(i64, i64, i64, i64), u64>,
    locations: HashMap<Place, u64>,
    comments: Vec<Comment>,
    /// Of each profile its first sample, and when it began.
    starts: Vec<(usize, i64)>,
    end: i64,
}

impl Merge {
    /// Adds the profile of the process with this id. The program's name is that of the profile's first mapping.
    ///
    /// # Errors
    /// [`Error::Input`] for a profile whose samples are of other types or units than those of the first one; then nothing
    /// of it is added.
    pub fn add(&mut self, profile: &Profile, process: u32) -> Result<()> {
        let from = &profile.message;
        self.begin(from)?;
        let name = from.mapping.first().map_or("", |mapping| from.text(mapping.filename)).rsplit('/').next();
        let text = |merge: &mut Self, text: &str| merge.intern(text);
        let labels = [
            Label { key: text(self, "process"), str: text(self, name.unwrap_or_default()), ..Label::default() },
            Label { key: text(self, "process_id"), num: i64::from(process), ..Label::default() },
        ];
        let functions: HashMap<u64, u64> =
            from.function.iter().map(|function| (function.id, self.function(from, function))).collect();
        let mappings: HashMap<u64, (u64, u64)> =
            from.mapping.iter().map(|mapping| (mapping.id, self.mapping(from, mapping))).collect();
        let mut locations = HashMap::new();
        for location in &from.location {
            locations.insert(location.id, self.location(location, &functions, &mappings));
        }
        self.starts.push((self.message.sample.len(), from.time_nanos));
        for sample in &from.sample {
            let mut label = labels.to_vec();
            label.extend(sample.label.iter().map(|known| Label {
                key: self.intern(from.text(known.key)),
                str: self.intern(from.text(known.str)),
                num_unit: self.intern(from.text(known.num_unit)),
                ..*known
            }));
            let location_id = sample.location_id.iter().filter_map(|id| locations.get(id).copied()).collect();
            self.message.sample.push(Sample {
                location_id,
                value: sample.value.clone(),
                label,
                times: sample.times.clone(),
            });
        }
        from.comment.iter().for_each(|&index| self.comment(from.text(index)));
        Ok(())
    }

    /// Adds a line of a process without a profile of its own, as its counters are: ticks that found no stack make no sample.
    pub fn add_comment(&mut self, text: &str) {
        self.comment(text);
    }

    /// The profile of all; nothing where none was added.
    pub fn finish(mut self) -> Option<Profile> {
        if self.message.sample_type.is_empty() {
            return None;
        }
        self.message.duration_nanos = self.end.saturating_sub(self.message.time_nanos);
        self.align_times();
        let comments: Vec<String> = self.comments.iter().map(Comment::text).collect();
        self.message.comment = comments.iter().map(|text| self.intern(text)).collect();
        Some(Profile { message: self.message })
    }

    /// Times count from the start of the whole.
    fn align_times(&mut self) {
        let ends = self.starts.iter().skip(1).map(|&(first, _)| first).chain([self.message.sample.len()]);
        for (&(first, start), end) in self.starts.iter().zip(ends) {
            let later = start.saturating_sub(self.message.time_nanos) / 1000;
            for sample in
                self.message.sample[first..end].iter_mut().filter(|sample| later != 0 && !sample.times.is_empty())
            {
                sample.times = sample.times.shifted(later);
            }
        }
    }

    /// What holds for the whole: from the first profile, with the times of all.
    fn begin(&mut self, from: &ProfileMessage) -> Result<()> {
        let names = |message: &ProfileMessage| -> Vec<(String, String)> {
            let types = message.sample_type.iter();
            types.map(|value| (message.text(value.r#type).into(), message.text(value.unit).into())).collect()
        };
        if self.message.sample_type.is_empty() {
            self.intern(""); // the first string of a table
            let mut value = |value: &crate::message::ValueType| crate::message::ValueType {
                r#type: self.intern(from.text(value.r#type)),
                unit: self.intern(from.text(value.unit)),
            };
            let types = from.sample_type.iter().map(&mut value).collect();
            let period_type = from.period_type.as_ref().map(&mut value);
            self.message.sample_type = types;
            self.message.period_type = period_type;
            self.message.period = from.period;
            self.message.drop_frames = self.intern(from.text(from.drop_frames));
            self.message.keep_frames = self.intern(from.text(from.keep_frames));
            self.message.default_sample_type = self.intern(from.text(from.default_sample_type));
            self.message.time_nanos = from.time_nanos;
        } else if names(from) != names(&self.message) {
            return Err(Error::Input("its values are of other types than those of the other processes".into()));
        }
        self.message.time_nanos = self.message.time_nanos.min(from.time_nanos);
        self.end = self.end.max(from.time_nanos.saturating_add(from.duration_nanos));
        Ok(())
    }

    fn intern(&mut self, text: &str) -> i64 {
        self.strings.intern(&mut self.message.string_table, text)
    }

    fn function(&mut self, from: &ProfileMessage, function: &Function) -> u64 {
        let mut text = |index| self.intern(from.text(index));
        let (name, system_name, filename) = (text(function.name), text(function.system_name), text(function.filename));
        let next = self.functions.len() as u64 + 1;
        let key = (name, system_name, filename, function.start_line);
        *self.functions.entry(key).or_insert_with(|| {
            self.message.function.push(Function { id: next, name, system_name, filename, ..*function });
            next
        })
    }

    /// The new id, and what is added to addresses: the same part of the same file is one mapping, wherever it lay.
    fn mapping(&mut self, from: &ProfileMessage, mapping: &Mapping) -> (u64, u64) {
        let (filename, build_id) = (self.intern(from.text(mapping.filename)), self.intern(from.text(mapping.build_id)));
        let size = mapping.memory_limit.wrapping_sub(mapping.memory_start);
        let key = (filename, build_id, mapping.file_offset, size);
        if let Some(&(id, start)) = self.mappings.get(&key) {
            return (id, start.wrapping_sub(mapping.memory_start));
        }
        let id = self.message.mapping.len() as u64 + 1;
        self.message.mapping.push(Mapping { id, filename, build_id, ..*mapping });
        // Without a build id nothing tells that two files of a name are one: generated code has none either.
        if build_id != 0 {
            self.mappings.insert(key, (id, mapping.memory_start));
        }
        (id, 0)
    }

    fn location(
        &mut self,
        location: &Location,
        functions: &HashMap<u64, u64>,
        mappings: &HashMap<u64, (u64, u64)>,
    ) -> u64 {
        let (mapping_id, shift) = mappings.get(&location.mapping_id).copied().unwrap_or((0, 0));
        let address = location.address.wrapping_add(shift);
        let line = |line: &Line| Line { function_id: functions.get(&line.function_id).copied().unwrap_or(0), ..*line };
        let line: Vec<Line> = location.line.iter().map(line).collect();
        let key = (mapping_id, address, line.iter().map(|line| (line.function_id, line.line)).collect());
        let id = self.message.location.len() as u64 + 1;
        *self.locations.entry(key).or_insert_with(|| {
            self.message.location.push(Location { id, mapping_id, address, line, ..*location });
            id
        })
    }

    fn comment(&mut self, text: &str) {
        let comment = Comment::new(text);
        match self.comments.iter_mut().find(|known| known.is_of_the_same(&comment)) {
            Some(known) => known.add(&comment),
            None => self.comments.push(comment),
        }
    }
}

/// A line of counters, `word key=value ...` with ` path=...` or ` of=...` at its end, or any other remark.
struct Comment {
    word: String,
    values: Vec<(String, String)>,
    subject: String,
}

/// What is so for each process, and no sum.
const ALIKE: [&str; 2] = ["period", "running"];

impl Comment {
    fn new(text: &str) -> Self {
        let counts = text.starts_with("onstack.");
        // What the numbers are of goes to the end of the line.
        let subject = [" path=", " of="].iter().filter_map(|key| text.find(key)).min().filter(|_| counts);
        let (text, subject) = text.split_at(subject.unwrap_or(text.len()));
        let (word, rest) = text.split_once(' ').filter(|_| counts).unwrap_or((text, ""));
        let pairs = rest.split_whitespace().map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let values = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Self { word: word.to_owned(), values, subject: subject.to_owned() }
    }

    fn is_of_the_same(&self, other: &Self) -> bool {
        (&self.word, &self.subject) == (&other.word, &other.subject)
    }

    fn add(&mut self, other: &Self) {
        for (key, value) in &other.values {
            match self.values.iter_mut().find(|(known, _)| known == key) {
                Some((_, known)) => {
                    let sum = known.parse().ok().zip(value.parse().ok()).map(|(a, b): (u64, u64)| a.saturating_add(b));
                    if let Some(sum) = sum.filter(|_| !ALIKE.contains(&key.as_str())) {
                        *known = sum.to_string();
                    }
                }
                None => self.values.push((key.clone(), value.clone())),
            }
        }
    }

    fn text(&self) -> String {
        let values = self.values.iter().map(|(key, value)| format!(" {key}={value}"));
        format!("{}{}{}", self.word, values.collect::<String>(), self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ValueType;
    use crate::message::{Moment, Times};

    /// A stack of two places in one file, which lies at `start`; the second process has another start.
    fn profile(start: u64, build_id: &str, stats: &str) -> Profile {
        let strings = ["", "cpu", "nanoseconds", "/bin/tool", build_id, "f", "main", "thread", "one", stats];
        let location = |id: u64, function_id| Location {
            id,
            mapping_id: 1,
            address: start + 16 * id,
            line: vec![Line { function_id, line: 7, ..Line::default() }],
            ..Location::default()
        };
        Profile {
            message: ProfileMessage {
                sample_type: vec![ValueType { r#type: 1, unit: 2 }],
                string_table: strings.map(String::from).to_vec(),
                mapping: vec![Mapping {
                    id: 1,
                    memory_start: start,
                    memory_limit: start + 4096,
                    filename: 3,
                    build_id: 4,
                    ..Mapping::default()
                }],
                function: vec![
                    Function { id: 1, name: 5, ..Function::default() },
                    Function { id: 2, name: 6, ..Function::default() },
                ],
                location: vec![location(1, 1), location(2, 2)],
                sample: vec![Sample {
                    location_id: vec![1, 2],
                    value: vec![5],
                    label: vec![Label { key: 7, str: 8, ..Label::default() }],
                    times: Times::from_moments([Moment { at: 3, weight: 1 }].into_iter()),
                }],
                comment: vec![9],
                time_nanos: start as i64,
                duration_nanos: 10,
                ..ProfileMessage::default()
            },
        }
    }

    #[test]
    fn two_processes_share_what_is_the_same_and_add_up_what_counts() {
        let mut merge = Merge::default();
        merge.add(&profile(0x5000, "b1", "onstack.stats ticks=3 period=9 clock=cpu"), 11).unwrap();
        merge.add(&profile(0x9000, "b1", "onstack.stats ticks=4 period=9 clock=cpu late=1"), 12).unwrap();
        merge.add(&profile(0x9000, "b2", "onstack.stats ticks=1"), 13).unwrap();
        merge.add_comment("onstack.stats ticks=2 period=9 clock=cpu late=3");
        let merged = merge.finish().unwrap();
        assert_eq!(
            (merged.message.mapping.len(), merged.message.location.len(), merged.message.function.len()),
            (2, 4, 2)
        );
        assert_eq!(merged.message.location[0].address, 0x5010);
        assert_eq!(merged.message.sample[0].location_id, merged.message.sample[1].location_id);
        let folded = |profile: &Profile| {
            let mut out = Vec::new();
            profile.folded(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(folded(&merged), "one;main;f 15\n");
        assert_eq!(merged.by_label("process").values, [(Some("tool".into()), 15)]);
        assert_eq!(merged.by_label("process_id").values.len(), 3);
        assert_eq!(merged.comments().collect::<Vec<_>>(), ["onstack.stats ticks=10 period=9 clock=cpu late=4"]);
        assert_eq!((merged.message.time_nanos, merged.message.duration_nanos), (0x5000, 0x400a));
        let times = merged.message.sample.iter().flat_map(|sample| sample.times.iter()).map(|moment| moment.at);
        assert_eq!(times.collect::<Vec<_>>(), [3, 3 + 0x4000 / 1000, 3 + 0x4000 / 1000]);
        // What was merged is a profile like others.
        assert_eq!(Profile::read(&merged.to_bytes()[..]).unwrap().message, merged.message);
    }

    /// Of a heap profile they are the allocator's own.
    #[test]
    fn frames_that_are_left_out_stay_so() {
        let mut one = profile(0x5000, "b1", "");
        (one.message.drop_frames, one.message.keep_frames) = (5, 6);
        let mut merge = Merge::default();
        merge.add(&one, 1).unwrap();
        let merged = merge.finish().unwrap();
        assert_eq!(merged.top(), one.top());
        let text = |index| merged.message.text(index);
        assert_eq!((text(merged.message.drop_frames), text(merged.message.keep_frames)), ("f", "main"));
    }

    #[test]
    fn counters_of_the_same_add_up() {
        let mut merge = Merge::default();
        for line in [
            "onstack.module lost=2 path=/a of=b",
            "onstack.memory bytes=3 of=a b",
            "onstack.module lost=5 path=/c",
            "text x=1",
        ] {
            merge.comment(line);
            merge.comment(line);
        }
        let texts: Vec<String> = merge.comments.iter().map(Comment::text).collect();
        let sums = [
            "onstack.module lost=4 path=/a of=b",
            "onstack.memory bytes=6 of=a b",
            "onstack.module lost=10 path=/c",
            "text x=1",
        ];
        assert_eq!(texts, sums);
    }

    #[test]
    fn other_values_are_refused_and_nothing_is_nothing() {
        let mut merge = Merge::default();
        assert!(Merge::default().finish().is_none());
        merge.add(&profile(0x5000, "", "remark path=x"), 1).unwrap();
        assert!(matches!(merge.add(&Profile::from_folded("f 1").unwrap(), 2), Err(Error::Input(_))));
        let merged = merge.finish().unwrap();
        assert_eq!((merged.top().total, merged.comments().next()), (5, Some("remark path=x")));
    }
}
