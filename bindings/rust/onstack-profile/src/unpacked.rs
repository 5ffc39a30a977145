// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a profile unpacks to. In a file, a frame takes one byte however many functions were inlined there, and a string is
//! written once however often it is used. So a small file can stand for gigabytes, which a table or a picture makes of it.

use std::collections::HashMap;

use crate::message::{Location, ProfileMessage, Sample};

/// In one stack, inlined functions included.
const MOST_FRAMES: u64 = 1 << 16;
/// In the whole profile: some, and so many for each byte of the profile. A real profile has fewer than one for each byte.
const SMALL_FRAMES: u64 = 1 << 20;
const MOST_FRAMES_OF_A_BYTE: u64 = 2;
/// A text of this length counts as a frame.
const TEXT: usize = 256;

/// Counts the frames of all samples, and every use of a long text. `bytes` is the profile's length.
///
/// # Errors
/// The reason, if there are more than any real profile has.
pub(crate) fn check(message: &ProfileMessage, bytes: usize) -> Result<(), String> {
    let sizes = Sizes::new(message);
    let mut total = sizes.of_tables();
    for sample in &message.sample {
        let frames = sizes.of_stack(sample);
        if frames > MOST_FRAMES {
            return Err(format!("it has a stack of {frames} frames; {MOST_FRAMES} are the most"));
        }
        total = total.saturating_add(frames + sizes.of_labels(sample));
    }
    let most = SMALL_FRAMES + MOST_FRAMES_OF_A_BYTE * bytes as u64;
    if total > most {
        return Err(format!("it unpacks to {total} frames; {most} are the most for its size"));
    }
    Ok(())
}

/// In frames.
struct Sizes<'a> {
    message: &'a ProfileMessage,
    locations: HashMap<u64, u64>,
}

impl<'a> Sizes<'a> {
    fn new(message: &'a ProfileMessage) -> Self {
        let text = |index| text(message, index);
        let functions = message.function.iter();
        let functions: HashMap<u64, u64> =
            functions.map(|function| (function.id, 1 + text(function.name).max(text(function.system_name)))).collect();
        let files: HashMap<u64, u64> =
            message.mapping.iter().map(|mapping| (mapping.id, text(mapping.filename))).collect();
        // A function without a name is shown by the name of its file.
        let nameless = |location: &Location| 1 + files.get(&location.mapping_id).copied().unwrap_or(0);
        let location = |location: &Location| {
            let lines = location.line.iter().map(|line| functions.get(&line.function_id).copied().unwrap_or(1));
            let named: u64 = lines.map(|frames| frames.max(nameless(location))).sum();
            (location.id, named.max(nameless(location)))
        };
        Self { message, locations: message.location.iter().map(location).collect() }
    }

    /// Comments and tables use texts, too.
    fn of_tables(&self) -> u64 {
        let message = self.message;
        let comments = message.comment.iter().copied();
        let functions = message.function.iter().flat_map(|function| [function.name, function.filename]);
        let mappings = message.mapping.iter().flat_map(|mapping| [mapping.filename, mapping.build_id]);
        comments.chain(functions).chain(mappings).map(|index| text(message, index)).sum()
    }

    fn of_stack(&self, sample: &Sample) -> u64 {
        sample.location_id.iter().map(|id| self.locations.get(id).copied().unwrap_or(1)).sum()
    }

    fn of_labels(&self, sample: &Sample) -> u64 {
        let texts = sample.label.iter().flat_map(|label| [label.key, label.str, label.num_unit]);
        texts.map(|index| text(self.message, index)).sum()
    }
}

fn text(message: &ProfileMessage, index: i64) -> u64 {
    (message.text(index).len() / TEXT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Function, Label, Line, ValueType};
    use crate::wire::Message;
    use crate::{Error, Profile};

    /// One function, inlined into itself so many times at a place, which each of the stacks has `depth` times.
    fn message(inlined: usize, depth: usize, stacks: usize) -> ProfileMessage {
        let sample = Sample { location_id: vec![1; depth], value: vec![1], ..Sample::default() };
        ProfileMessage {
            sample_type: vec![ValueType { r#type: 1, unit: 1 }],
            string_table: vec![String::new(), "f".into()],
            function: vec![Function { id: 1, name: 1, ..Function::default() }],
            location: vec![Location {
                id: 1,
                line: vec![Line { function_id: 1, ..Line::default() }; inlined],
                ..Location::default()
            }],
            sample: vec![sample; stacks],
            ..ProfileMessage::default()
        }
    }

    fn refused(message: &ProfileMessage) -> Option<String> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        match Profile::read(&bytes[..]) {
            Ok(_) => None,
            Err(Error::Input(why)) => Some(why),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)] // minutes
    fn a_stack_counts_inlined_functions() {
        let why = |inlined, depth| refused(&message(inlined, depth, 1)).unwrap_or_default();
        assert_eq!((why(1, 65_536), why(256, 256)), (String::new(), String::new()));
        for (inlined, depth) in [(1, 65_537), (65_537, 1), (1, 70_000), (257, 256), (200_000, 1000)] {
            let frames = format!("a stack of {} frames", inlined * depth);
            assert!(why(inlined, depth).contains(&frames), "{inlined} {depth}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)] // minutes
    fn a_profile_counts_the_frames_of_all_stacks() {
        assert_eq!(refused(&message(1000, 60, 15)), None);
        assert!(refused(&message(1000, 60, 20)).is_some_and(|why| why.contains("unpacks to 1200000 frames")));
        // As many as a real profile may have for its size.
        assert_eq!(refused(&message(2, 100, 20_000)), None);
    }

    #[test]
    #[cfg_attr(miri, ignore)] // minutes
    fn a_long_text_counts_at_every_use() {
        let mut long = message(1, 1, 4);
        long.string_table.push("x".repeat(1 << 20));
        assert_eq!(refused(&long), None);
        let label = Label { key: 1, str: 2, ..Label::default() };
        type Change = (&'static str, fn(&mut ProfileMessage));
        let uses: [Change; 5] = [
            ("comments", |message| message.comment = vec![2; 2000]),
            ("functions", |message| {
                message.function = vec![Function { id: 1, name: 1, filename: 2, ..Function::default() }; 2000];
            }),
            ("mappings", |message| {
                let mapping = crate::message::Mapping { id: 1, filename: 2, ..Default::default() };
                message.mapping = vec![mapping; 2000];
            }),
            ("frames", |message| {
                message.function[0].name = 2;
                message.sample = vec![Sample { location_id: vec![1; 10], ..Sample::default() }; 200];
            }),
            ("a stack", |message| {
                message.function[0].name = 2;
                message.sample[0].location_id = vec![1; 20];
            }),
        ];
        for (what, change) in uses {
            let mut changed = long.clone();
            change(&mut changed);
            assert!(refused(&changed).is_some_and(|why| why.contains("frames")), "{what}");
        }
        long.sample[0].label = vec![label; 2000];
        assert!(refused(&long).is_some_and(|why| why.contains("for its size")));
    }
}
