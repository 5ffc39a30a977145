// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folded stacks out of a pprof profile, byte for byte as the core writes them out of its own, and back.

use std::collections::{BTreeMap, HashMap};

use crate::message::{Function, Line, Location, ProfileMessage, Sample, ValueType};
use crate::stacks::Stacks;
use onstack::{Error, Result};

/// The lines `thread;main;f;g 12` without line ends, root first, sorted.
pub(crate) fn lines(profile: &ProfileMessage) -> Vec<String> {
    let stacks = Stacks::new(profile);
    let measure = Measure::of(&stacks);
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for sample in &profile.sample {
        let value = measure.value(sample);
        if value != 0 {
            let sum = sums.entry(stack(&stacks, sample)).or_default();
            *sum = sum.saturating_add(value);
        }
    }
    sums.into_iter().map(|(stack, value)| format!("{} {value}", stack.trim_end_matches(';'))).collect()
}

/// Each frame is followed by `;`, the last one too: lines sort by their frames.
fn stack(stacks: &Stacks<'_>, sample: &Sample) -> String {
    let names = stacks.names(sample);
    let mut line = String::new();
    for name in stacks.thread(sample).into_iter().chain(names.iter().rev().map(String::as_str)) {
        line.extend(name.chars().map(written));
        line.push(';');
    }
    line
}

/// What the format itself uses has no place in a name.
pub(crate) fn written(c: char) -> char {
    match c {
        ';' => ':',
        '\n' | '\r' => ' ',
        other => other,
    }
}

/// A message whose samples are the lines of `text`. Numbers with a fraction, as some tools write them, are rounded.
pub(crate) fn parse(text: &str) -> Result<ProfileMessage> {
    let mut message = ProfileMessage {
        string_table: ["", "samples", "count"].map(String::from).to_vec(),
        sample_type: vec![ValueType { r#type: 1, unit: 2 }],
        ..ProfileMessage::default()
    };
    let mut places: HashMap<&str, u64> = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        let Some((stack, value)) = split(line) else {
            let number = index + 1;
            let expected = "frames joined by `;`, a space and a number expected";
            return Err(Error::Input(format!("line {number} is no folded stack: {expected}")));
        };
        let frames = stack.split(';').rev();
        let location_id =
            frames.map(|name| *places.entry(name).or_insert_with(|| add_place(&mut message, name))).collect();
        message.sample.push(Sample { location_id, value: vec![value], ..Sample::default() });
    }
    if message.sample.is_empty() {
        return Err(Error::Input("it holds no stacks; profile for longer, or while the program uses CPU".into()));
    }
    Ok(message)
}

fn split(line: &str) -> Option<(&str, i64)> {
    let (stack, number) = line.rsplit_once(' ')?;
    // A float holds whole numbers up to 2^53 only.
    if let Ok(value) = number.parse::<u64>() {
        return Some((stack, i64::try_from(value).unwrap_or(i64::MAX)));
    }
    let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
    Some((stack, value.round() as i64))
}

fn add_place(message: &mut ProfileMessage, name: &str) -> u64 {
    let text = message.string_table.len() as i64;
    message.string_table.push(name.to_owned());
    let id = message.function.len() as u64 + 1;
    message.function.push(Function { id, name: text, ..Function::default() });
    let line = vec![Line { function_id: id, ..Line::default() }];
    message.location.push(Location { id, line, ..Location::default() });
    id
}

/// What the number behind a stack means.
#[derive(Debug, PartialEq, Eq)]
enum Measure {
    /// The time of this value by the period: ticks.
    Ticks { index: usize, period: i64 },
    /// This value as it is.
    Plain(usize),
}

impl Measure {
    /// Of the value that is shown. A time that nobody has asked for becomes ticks where the profile knows them: times that
    /// are all multiples of its period. Its count of samples is another thing, since a sample can stand for several ticks.
    fn of(stacks: &Stacks<'_>) -> Self {
        let (profile, index) = (stacks.profile, stacks.default_value());
        let (name, unit) = stacks.value_names(index);
        let is_waits = name == "delay"; // each of its own length
        if stacks.named_value().is_some() || is_waits || !unit.ends_with("seconds") {
            return Measure::Plain(index);
        }
        let period_type = profile.period_type.map_or("", |value| stacks.text(value.r#type));
        let whole = |sample: &Sample| sample.value.get(index).is_none_or(|v| v % profile.period == 0);
        if profile.period > 0 && period_type == name && profile.sample.iter().all(whole) {
            return Measure::Ticks { index, period: profile.period };
        }
        Measure::Plain(stacks.value_of_type("samples").unwrap_or(index))
    }

    fn value(&self, sample: &Sample) -> i64 {
        let (index, period) = match *self {
            Measure::Ticks { index, period } => (index, period),
            Measure::Plain(index) => (index, 1),
        };
        sample.value.get(index).copied().unwrap_or(0) / period
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ValueType;

    fn profile(times: &[i64]) -> ProfileMessage {
        let strings = ["", "samples", "count", "cpu", "nanoseconds"];
        let cpu = ValueType { r#type: 3, unit: 4 };
        ProfileMessage {
            sample_type: vec![ValueType { r#type: 1, unit: 2 }, cpu],
            string_table: strings.map(String::from).to_vec(),
            period_type: Some(cpu),
            period: 10,
            sample: times.iter().map(|&time| Sample { value: vec![1, time], ..Sample::default() }).collect(),
            ..ProfileMessage::default()
        }
    }

    #[test]
    fn the_number_is_ticks_where_they_are_known() {
        let whole = profile(&[30, 10]);
        assert_eq!(Measure::of(&Stacks::new(&whole)), Measure::Ticks { index: 1, period: 10 });
        let other = profile(&[30, 15]);
        assert_eq!(Measure::of(&Stacks::new(&other)), Measure::Plain(0));
        assert_eq!(lines(&whole), [" 4"]);
    }

    #[test]
    fn the_number_is_of_the_value_that_is_shown() {
        let mut chosen = profile(&[30, 10]);
        chosen.default_sample_type = 3;
        assert_eq!(Measure::of(&Stacks::new(&chosen)), Measure::Plain(1));
        chosen.default_sample_type = 1;
        assert_eq!(Measure::of(&Stacks::new(&chosen)), Measure::Plain(0));
        // Of Go's mutexes.
        let mut waits = profile(&[30, 10]);
        waits.string_table = ["", "contentions", "count", "delay", "nanoseconds"].map(String::from).to_vec();
        for (period_type, period) in [(waits.sample_type[0], 1), (waits.sample_type[1], 10)] {
            (waits.period_type, waits.period) = (Some(period_type), period);
            assert_eq!(Measure::of(&Stacks::new(&waits)), Measure::Plain(1));
        }
        let mut bytes = profile(&[30, 10]);
        bytes.string_table[4] = "bytes".into();
        bytes.period_type = None;
        assert_eq!(Measure::of(&Stacks::new(&bytes)), Measure::Plain(1));
    }

    #[test]
    fn folded_stacks_are_read_and_written_alike() {
        let exact = "main 101457094605402527";
        assert_eq!(lines(&parse(exact).unwrap()), [exact]);
        let text = "main;f 2\nmain;f;g h 10\n\nmain;f 0.6\n";
        assert_eq!(lines(&parse(text).unwrap()), ["main;f 3", "main;f;g h 10"]);
        for wrong in ["", "\n\n", "main;f", "main;f x", "main;f -1", "main;f inf"] {
            assert!(matches!(parse(wrong), Err(Error::Input(_))), "{wrong}");
        }
    }
}
