// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between a pprof message and a report's stacks, in both directions.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::time::SystemTime;

use onstack::Result;
use onstack_profile::message::{Function, Interner, Label, Line, Location, Mapping, ProfileMessage, Sample, ValueType};
use onstack_profile::Profile;

use crate::frames::{Frame, Frames, ReportTiming, Symbol, UnresolvedFrames};

/// What a message has beside its stacks: an empty message with mappings, types, period and comments.
#[derive(Clone)]
pub(crate) struct Context {
    frame: ProfileMessage,
    shared: Shared,
    /// The stacks that one of the report's stands for, if there are several: they differ by address, line or file.
    details: Details,
}

type Details = HashMap<Frames, Vec<(Frames, isize)>>;

/// The stacks of a message with their ticks. Stacks of the same functions are one, which has the places of the one that was met
/// most. `details` gets them as they were, unless they are changed.
pub(crate) fn stacks(
    message: &ProfileMessage,
    start: SystemTime,
    post_processor: Option<&dyn Fn(&mut Frames)>,
    details: &mut Details,
) -> HashMap<Frames, isize> {
    let places: HashMap<u64, Vec<Symbol>> =
        Places::new(message).locations.iter().map(|(&id, location)| (id, symbols(message, location))).collect();
    let mut data: HashMap<Frames, isize> = HashMap::new();
    let mut samples: Vec<&Sample> = message.sample.iter().collect();
    samples.sort_by_key(|sample| std::cmp::Reverse(ticks(sample)));
    for sample in samples {
        let (thread_name, thread_id) = thread(message, sample);
        let frames = sample.location_id.iter().filter_map(|id| places.get(id).cloned()).collect();
        let labels = labels(message, sample);
        let mut frames = Frames { frames, thread_name, thread_id, labels, sample_timestamp: start };
        if let Some(change) = post_processor {
            change(&mut frames);
        } else {
            details.entry(frames.clone()).or_default().push((frames.clone(), ticks(sample)));
        }
        *data.entry(frames).or_default() += ticks(sample);
    }
    details.retain(|_, parts| parts.len() > 1);
    data
}

/// The stacks of a message as addresses.
pub(crate) fn unresolved(message: &ProfileMessage, start: SystemTime) -> HashMap<UnresolvedFrames, isize> {
    let places = Places::new(message);
    let mut data: HashMap<UnresolvedFrames, isize> = HashMap::new();
    for sample in &message.sample {
        let (thread_name, thread_id) = thread(message, sample);
        let addresses = sample.location_id.iter().filter_map(|id| places.locations.get(id)).map(|place| place.address);
        // Places without an address are remarks, as where the stack was cut.
        let frames = addresses.filter(|&address| address != 0).map(Frame).collect();
        let frames = UnresolvedFrames::new(frames, &thread_name, thread_id, start);
        *data.entry(frames).or_default() += ticks(sample);
    }
    data
}

/// The functions at places of this process.
pub(crate) fn named(frames: &[Frame]) -> Result<Vec<Vec<Symbol>>> {
    let addresses: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
    let profile = Profile::of_this_process(&onstack::pprof_of_addresses(&addresses)?)?;
    let stacks = stacks(profile.message(), SystemTime::UNIX_EPOCH, None, &mut HashMap::new());
    Ok(stacks.into_keys().next().unwrap_or_default().frames)
}

struct Places<'a> {
    locations: HashMap<u64, &'a Location>,
}

impl<'a> Places<'a> {
    fn new(message: &'a ProfileMessage) -> Self {
        Self { locations: message.location.iter().map(|location| (location.id, location)).collect() }
    }
}

/// Our messages number their functions 1, 2, ... in their order.
fn symbols(message: &ProfileMessage, location: &Location) -> Vec<Symbol> {
    let addr = (location.address != 0).then_some(location.address as usize as *mut c_void);
    let unnamed = Symbol { name: None, addr, lineno: None, filename: None };
    if location.line.is_empty() {
        return vec![unnamed];
    }
    let symbol = |line: &Line| {
        let index = usize::try_from(line.function_id).unwrap_or(0).checked_sub(1);
        let Some(function) = index.and_then(|index| message.function.get(index)) else { return unnamed.clone() };
        let name = [function.system_name, function.name].map(|name| message.text(name));
        let file = message.text(function.filename);
        Symbol {
            name: name.into_iter().find(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()),
            addr,
            lineno: u32::try_from(line.line).ok().filter(|&line| line > 0),
            filename: (!file.is_empty()).then(|| PathBuf::from(file)),
        }
    };
    location.line.iter().map(symbol).collect()
}

fn thread(message: &ProfileMessage, sample: &Sample) -> (String, u64) {
    let label = |key| sample.label.iter().find(|label| message.text(label.key) == key);
    let name = label("thread").map_or("", |label| message.text(label.str));
    let id = label("thread_id").and_then(|label| u64::try_from(label.num).ok());
    (name.to_owned(), id.unwrap_or(0))
}

/// The comment that tells how many times are kept.
const TIMELINE: &str = "onstack.timeline ";

/// All but those of the thread.
fn labels(message: &ProfileMessage, sample: &Sample) -> Vec<(String, String)> {
    let pairs = sample.label.iter().map(|label| (message.text(label.key), message.text(label.str)));
    let others = pairs.filter(|(key, _)| !matches!(*key, "thread" | "thread_id"));
    others.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn ticks(sample: &Sample) -> isize {
    isize::try_from(sample.value.first().copied().unwrap_or(0)).unwrap_or(isize::MAX)
}

fn is_shared(message: &ProfileMessage, address: u64) -> bool {
    message.mapping.iter().filter(|mapping| holds(mapping, address)).nth(1).is_some()
}

/// Keeps of a message what its stacks do not say.
pub(crate) fn context(message: ProfileMessage, details: Details) -> Context {
    let shared = message.location.iter().filter(|location| is_shared(&message, location.address));
    let shared =
        shared.map(|location| ((location.address, symbols(&message, location)), location.mapping_id)).collect();
    let mut frame = ProfileMessage {
        string_table: vec![String::new()],
        time_nanos: message.time_nanos,
        duration_nanos: message.duration_nanos,
        period: message.period,
        ..ProfileMessage::default()
    };
    let types = |frame: &mut ProfileMessage, value: &ValueType| ValueType {
        r#type: frame.intern(message.text(value.r#type)),
        unit: frame.intern(message.text(value.unit)),
    };
    frame.sample_type = message.sample_type.iter().map(|value| types(&mut frame, value)).collect();
    frame.period_type = message.period_type.as_ref().map(|value| types(&mut frame, value));
    // A report's stacks have no times.
    let comments = message.comment.iter().map(|&text| message.text(text)).filter(|text| !text.starts_with(TIMELINE));
    frame.comment = comments.map(|text| frame.intern(text)).collect();
    frame.mapping = message
        .mapping
        .iter()
        .map(|mapping| Mapping {
            filename: frame.intern(message.text(mapping.filename)),
            build_id: frame.intern(message.text(mapping.build_id)),
            ..*mapping
        })
        .collect();
    Context { frame, shared, details }
}

/// Of a report that a program made of its own: ticks and the CPU time that they stand for.
pub(crate) fn context_of(timing: &ReportTiming) -> Context {
    let mut frame = ProfileMessage { string_table: vec![String::new()], ..ProfileMessage::default() };
    let mut kind = |name, unit| ValueType { r#type: frame.intern(name), unit: frame.intern(unit) };
    let types = vec![kind("samples", "count"), kind("cpu", "nanoseconds")];
    let start = timing.start_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    frame.period_type = types.last().copied();
    frame.sample_type = types;
    frame.period = 1_000_000_000 / i64::from(timing.frequency.max(1));
    frame.time_nanos = i64::try_from(start.as_nanos()).unwrap_or(i64::MAX);
    Context { frame, shared: HashMap::new(), details: HashMap::new() }
}

/// A message of a report's stacks, sorted by what they spent.
pub(crate) fn profile(data: &HashMap<Frames, isize>, timing: &ReportTiming, context: &Context) -> Profile {
    let mut rebuild = Rebuild::new(&context.frame, &context.shared);
    let mut stacks: Vec<(&Frames, isize)> = Vec::with_capacity(data.len());
    for (frames, &ticks) in data {
        match context.details.get(frames) {
            Some(parts) if parts.iter().map(|(_, part)| part).sum::<isize>() == ticks => {
                stacks.extend(parts.iter().map(|(frames, part)| (frames, *part)));
            }
            _ => stacks.push((frames, ticks)),
        }
    }
    stacks.sort_by_cached_key(|&(frames, ticks)| (std::cmp::Reverse(ticks), frames.thread_id, rebuild.key(frames)));
    for (frames, ticks) in stacks {
        rebuild.add(frames, ticks as i64);
    }
    let mut message = rebuild.finish();
    message.duration_nanos = i64::try_from(timing.duration.as_nanos()).unwrap_or(i64::MAX);
    message.into()
}

fn holds(mapping: &Mapping, address: u64) -> bool {
    (mapping.memory_start..mapping.memory_limit).contains(&address)
}

/// The mappings of places whose address lies in several: a library was loaded where another one had been.
type Shared = HashMap<(u64, Vec<Symbol>), u64>;

/// A place is told from others by its address and by all that is said of it.
type Place = (u64, Vec<(u64, i64)>);

/// Stands for the stack of a sample whose frames the program took out: profile servers refuse a sample without any.
const NO_FRAMES: &str = "[no frames]";

struct Rebuild<'a> {
    message: ProfileMessage,
    strings: Interner,
    functions: HashMap<(i64, i64), u64>,
    places: HashMap<Place, u64>,
    shared: &'a Shared,
}

impl<'a> Rebuild<'a> {
    /// `frame`: what the message has beside its stacks; `shared`: the mappings of places whose address lies in several.
    fn new(frame: &ProfileMessage, shared: &'a Shared) -> Self {
        let message = frame.clone();
        let strings = Interner::new(&message.string_table);
        Self { message, strings, functions: HashMap::new(), places: HashMap::new(), shared }
    }

    /// Puts stacks of the same weight into an order that does not depend on where the table keeps them.
    fn key(&self, frames: &Frames) -> Vec<usize> {
        frames.frames.iter().filter_map(|frame| frame.first()?.addr).map(|address| address as usize).collect()
    }

    fn add(&mut self, frames: &Frames, ticks: i64) {
        let mut location_id: Vec<_> = frames.frames.iter().map(|frame| self.place(frame)).collect();
        if location_id.is_empty() {
            let name = Some(NO_FRAMES.as_bytes().to_vec());
            location_id.push(self.place(&[Symbol { name, addr: None, lineno: None, filename: None }]));
        }
        let mut label = Vec::with_capacity(2 + frames.labels.len());
        if !frames.thread_name.is_empty() {
            label.push(Label { key: self.text("thread"), str: self.text(&frames.thread_name), ..Label::default() });
        }
        if frames.thread_id != 0 {
            let num = i64::try_from(frames.thread_id).unwrap_or(i64::MAX);
            label.push(Label { key: self.text("thread_id"), num, ..Label::default() });
        }
        for (key, value) in frames.labels.iter().filter(|(key, _)| !key.is_empty()) {
            label.push(Label { key: self.text(key), str: self.text(value), ..Label::default() });
        }
        let value = vec![ticks, ticks.saturating_mul(self.message.period)];
        self.message.sample.push(Sample { location_id, value, label, ..Sample::default() });
    }

    fn text(&mut self, text: &str) -> i64 {
        self.strings.intern(&mut self.message.string_table, text)
    }

    fn function(&mut self, symbol: &Symbol) -> Option<u64> {
        let name = self.text(&String::from_utf8_lossy(symbol.name.as_deref()?));
        let file = symbol.filename.as_deref().map_or(0, |path| self.text(&path.to_string_lossy()));
        let next = self.message.function.len() as u64 + 1;
        let id = *self.functions.entry((name, file)).or_insert(next);
        if id == next {
            self.message.function.push(Function { id, name, system_name: name, filename: file, start_line: 0 });
        }
        Some(id)
    }

    fn place(&mut self, frame: &[Symbol]) -> u64 {
        let address = frame.first().and_then(|symbol| symbol.addr).map_or(0, |address| address as usize as u64);
        let lines: Vec<_> =
            frame.iter().filter_map(|symbol| Some((self.function(symbol)?, i64::from(symbol.lineno())))).collect();
        let next = self.message.location.len() as u64 + 1;
        let id = *self.places.entry((address, lines.clone())).or_insert(next);
        if id == next {
            let holding =
                || self.message.mapping.iter().find(|mapping| holds(mapping, address)).map(|mapping| mapping.id);
            // Of most programs there are none.
            let shared = if self.shared.is_empty() { None } else { self.shared.get(&(address, frame.to_vec())) };
            let mapping_id = shared.copied().or_else(holding).unwrap_or(0);
            let line = lines.into_iter().map(|(function_id, line)| Line { function_id, line, column: 0 }).collect();
            self.message.location.push(Location { id, mapping_id, address, line, is_folded: false });
        }
        id
    }

    fn finish(self) -> ProfileMessage {
        self.message
    }
}

/// For code that was written for pprof-rs: reads debug information anew for each stack.
impl From<UnresolvedFrames> for Frames {
    fn from(unresolved: UnresolvedFrames) -> Self {
        let name = unresolved.thread_name.get(..unresolved.thread_name_length).unwrap_or_default();
        Self {
            // Without memory for names there are none.
            frames: named(&unresolved.frames).unwrap_or_default(),
            thread_name: String::from_utf8_lossy(name).into_owned(),
            thread_id: unresolved.thread_id,
            labels: Vec::new(),
            sample_timestamp: unresolved.sample_timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    type Labels = Vec<(String, String, i64)>;

    /// What each set of labels spent.
    fn by_labels(message: &ProfileMessage) -> Vec<(Labels, i64)> {
        let labels = |sample: &Sample| {
            let text = |index| message.text(index).to_owned();
            let mut labels: Labels =
                sample.label.iter().map(|label| (text(label.key), text(label.str), label.num)).collect();
            labels.sort();
            labels
        };
        let mut all: Vec<_> = message.sample.iter().map(|sample| (labels(sample), sample.value[0])).collect();
        all.sort();
        all
    }

    #[test]
    fn labels_go_into_a_report_and_out_again() {
        let mut message = ProfileMessage {
            string_table: vec![String::new()],
            location: vec![Location {
                id: 1,
                line: vec![Line { function_id: 1, ..Line::default() }],
                ..Location::default()
            }],
            period: 10,
            ..ProfileMessage::default()
        };
        let [samples, count, name] = ["samples", "count", "f"].map(|text| message.intern(text));
        message.sample_type = vec![ValueType { r#type: samples, unit: count }; 2];
        message.function = vec![Function { id: 1, name, system_name: name, ..Function::default() }];
        for (ticks, labels) in [
            (3, &[("thread", "worker"), ("route", "/a")][..]),
            (4, &[("thread", "worker"), ("route", "/b")]),
            (5, &[("route", "/a")]),
            (6, &[("http.route", "/a"), ("service", "shop")]),
            (7, &[]),
        ] {
            let label = labels.iter().map(|(key, value)| (message.intern(key), message.intern(value)));
            let mut label: Vec<_> = label.map(|(key, str)| Label { key, str, ..Label::default() }).collect();
            label.push(Label { key: message.intern("thread_id"), num: 9, ..Label::default() });
            message.sample.push(Sample {
                location_id: vec![1],
                value: vec![ticks, 10 * ticks],
                label,
                ..Sample::default()
            });
        }
        let start = SystemTime::UNIX_EPOCH;
        let timing = ReportTiming { frequency: 99, start_time: start, duration: Duration::from_secs(1) };
        let mut details = HashMap::new();
        let data = stacks(&message, start, None, &mut details);
        let written = profile(&data, &timing, &context(message.clone(), details));
        assert_eq!(by_labels(written.message()), by_labels(&message));
    }

    #[test]
    fn stacks_of_the_same_functions_are_one_and_keep_their_lines() {
        let place = |id: u64| Location {
            id,
            address: 0x1000 + id,
            line: vec![Line { function_id: 1, line: id as i64, ..Line::default() }],
            ..Location::default()
        };
        let message = ProfileMessage {
            string_table: ["", "f"].map(String::from).to_vec(),
            location: (1..=3).map(place).collect(),
            function: vec![Function { id: 1, name: 1, system_name: 1, ..Function::default() }],
            sample: [(1, 2), (2, 5), (3, 1)]
                .map(|(id, ticks)| Sample { location_id: vec![id], value: vec![ticks, 0], ..Sample::default() })
                .to_vec(),
            ..ProfileMessage::default()
        };
        let timing = ReportTiming { frequency: 1, start_time: SystemTime::UNIX_EPOCH, duration: Default::default() };
        let mut details = HashMap::new();
        let mut data = stacks(&message, timing.start_time, None, &mut details);
        let lines = |data: &HashMap<Frames, isize>, details: &Details| {
            let back = profile(data, &timing, &context(message.clone(), details.clone())).into_message();
            let line = |sample: &Sample| back.location[sample.location_id[0] as usize - 1].line[0].line;
            back.sample.iter().map(|sample| (line(sample), sample.value[0])).collect::<Vec<_>>()
        };
        assert_eq!(
            data.iter().map(|(frames, &ticks)| (frames.frames[0][0].lineno(), ticks)).collect::<Vec<_>>(),
            [(2, 8)]
        );
        assert_eq!(lines(&data, &details), [(2, 5), (1, 2), (3, 1)]);
        data.values_mut().for_each(|ticks| *ticks *= 3);
        assert_eq!(lines(&data, &details), [(2, 24)], "a program has changed it");
        assert_eq!(stacks(&message, timing.start_time, Some(&|_| ()), &mut HashMap::new()).len(), 1);
    }

    #[test]
    fn a_report_claims_no_times() {
        let mut message = ProfileMessage { string_table: vec![String::new()], ..ProfileMessage::default() };
        message.comment =
            ["onstack.stats ticks=7", "onstack.timeline kept=7 lost=0"].map(|text| message.intern(text)).to_vec();
        let timing = ReportTiming { frequency: 1, start_time: SystemTime::UNIX_EPOCH, duration: Default::default() };
        let written = profile(&HashMap::new(), &timing, &context(message, HashMap::new()));
        assert_eq!(written.comments().collect::<Vec<_>>(), ["onstack.stats ticks=7"]);
    }

    /// A library took the addresses of one that was closed.
    #[test]
    fn places_stay_in_their_own_of_two_mappings_of_one_range() {
        let mapping =
            |id, filename| Mapping { id, memory_start: 0x1000, memory_limit: 0x2000, filename, ..Mapping::default() };
        let place = |id, mapping_id, function_id| Location {
            id,
            mapping_id,
            address: 0x1234,
            line: vec![Line { function_id, line: 7, ..Line::default() }],
            ..Location::default()
        };
        let function = |id, name| Function { id, name, system_name: name, ..Function::default() };
        let message = ProfileMessage {
            string_table: ["", "/old.so", "/new.so", "old", "new"].map(String::from).to_vec(),
            mapping: vec![mapping(1, 1), mapping(2, 2)],
            location: vec![place(1, 1, 1), place(2, 2, 2)],
            function: vec![function(1, 3), function(2, 4)],
            sample: [1, 2]
                .map(|id| Sample { location_id: vec![id], value: vec![id as i64, 0], ..Sample::default() })
                .to_vec(),
            ..ProfileMessage::default()
        };
        let timing = ReportTiming { frequency: 1, start_time: SystemTime::UNIX_EPOCH, duration: Default::default() };
        let mut details = HashMap::new();
        let data = stacks(&message, timing.start_time, None, &mut details);
        let back = profile(&data, &timing, &context(message, details)).into_message();
        let files = back.location.iter().map(|location| {
            let named = &back.function[location.line[0].function_id as usize - 1];
            let mapping = &back.mapping[location.mapping_id as usize - 1];
            (back.text(named.name), back.text(mapping.filename))
        });
        assert_eq!(files.collect::<Vec<_>>(), [("new", "/new.so"), ("old", "/old.so")]);
    }
}
