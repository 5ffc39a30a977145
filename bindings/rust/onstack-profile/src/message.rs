// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of a pprof profile, as `github.com/google/pprof/proto/profile.proto` has them. Strings are indices into
//! the profile's table, whose first entry is empty; what that file says about each field holds here.

use std::collections::HashMap;
use std::fmt;

use crate::wire::{put_bytes, put_number, Damage, Field, Message, Reader, Value};

macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $tag:literal $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$about])* pub $field: $type,)*
        }

        impl Message for $name {
            // Values stand for types by their place.
            const EMPTY_SAYS_NOTHING: bool = !matches!(stringify!($name).as_bytes(), b"ValueType");

            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.put($tag, out);)*
            }
            fn merge_field(&mut self, tag: u32, value: Value<'_>) -> Result<(), Damage> {
                match tag {
                    $($tag => self.$field.merge(value),)*
                    // Of a later version of the format.
                    _ => Ok(()),
                }
            }
        }
    )*};
}

messages! {
    /// A whole profile; called `Profile` in the format.
    ProfileMessage {
        /// What each of a sample's values is.
        1 sample_type: Vec<ValueType>,
        /// The stacks.
        2 sample: Vec<Sample>,
        /// Where files lay in memory; the program's own is the first.
        3 mapping: Vec<Mapping>,
        /// Places of code.
        4 location: Vec<Location>,
        /// Functions.
        5 function: Vec<Function>,
        /// All texts; the first is empty.
        6 string_table: Vec<String>,
        /// Text: a regular expression for functions that are left out at the leaf, with what they call.
        7 drop_frames: i64,
        /// Text: functions that stay nonetheless.
        8 keep_frames: i64,
        /// When it began, in nanoseconds of Unix time; 0: not known.
        9 time_nanos: i64,
        /// How long it took; 0: not known.
        10 duration_nanos: i64,
        /// What is between two samples.
        11 period_type: Option<ValueType>,
        /// How much of it.
        12 period: i64,
        /// Texts: remarks.
        13 comment: Vec<i64>,
        /// Text: the type to be shown, by its name; 0: the last.
        14 default_sample_type: i64,
    }

    /// A kind of value: texts.
    #[derive(Copy)]
    ValueType {
        /// As `cpu`.
        1 r#type: i64,
        /// As `nanoseconds`.
        2 unit: i64,
    }

    /// A stack and what it spent.
    Sample {
        /// Ids of locations, leaf first.
        1 location_id: Vec<u64>,
        /// One of each sample type.
        2 value: Vec<i64>,
        /// What else is known.
        3 label: Vec<Label>,
        /// When its samples were taken. Not pprof's: others pass it over.
        1000 times: Times,
    }

    /// A key with a text or a number.
    #[derive(Copy)]
    Label {
        /// Text.
        1 key: i64,
        /// Text; 0: a number.
        2 str: i64,
        /// The number.
        3 num: i64,
        /// Text: the number's unit.
        4 num_unit: i64,
    }

    /// A part of a file in memory.
    #[derive(Copy)]
    Mapping {
        /// Not 0.
        1 id: u64,
        /// Its first address.
        2 memory_start: u64,
        /// The first address behind it.
        3 memory_limit: u64,
        /// Where in the file it begins.
        4 file_offset: u64,
        /// Text: the file's path.
        5 filename: i64,
        /// Text: the file's build id, in hexadecimal digits.
        6 build_id: i64,
        /// Whether names of its functions have been looked up.
        7 has_functions: bool,
        /// Whether source files have been looked up.
        8 has_filenames: bool,
        /// Whether lines have been looked up.
        9 has_line_numbers: bool,
        /// Whether inlined functions have been looked up.
        10 has_inline_frames: bool,
    }

    /// A place of code.
    Location {
        /// Not 0.
        1 id: u64,
        /// Id of its mapping; 0: none.
        2 mapping_id: u64,
        /// Its address; of a call it lies inside the call.
        3 address: u64,
        /// Its functions, the innermost inlined one first; none: it has no name.
        4 line: Vec<Line>,
        /// Whether other places were folded into it.
        5 is_folded: bool,
    }

    /// A line of a function.
    #[derive(Copy)]
    Line {
        /// Id of the function.
        1 function_id: u64,
        /// The line; 0: not known.
        2 line: i64,
        /// The column; 0: not known.
        3 column: i64,
    }

    /// A function.
    #[derive(Copy)]
    Function {
        /// Not 0.
        1 id: u64,
        /// Text: its name for people.
        2 name: i64,
        /// Text: as the symbol table has it.
        3 system_name: i64,
        /// Text: its source file.
        4 filename: i64,
        /// The line at which it begins; 0: not known.
        5 start_line: i64,
    }
}

impl ProfileMessage {
    /// The string of that index; empty for one that leads nowhere.
    pub fn text(&self, index: i64) -> &str {
        let found = usize::try_from(index).ok().and_then(|index| self.string_table.get(index));
        found.map_or("", String::as_str)
    }

    /// Its remarks.
    pub fn comments(&self) -> impl Iterator<Item = &str> {
        self.comment.iter().map(|&index| self.text(index))
    }

    /// The index of a string in the table; adds it. For a handful of strings: it looks at all of them.
    pub fn intern(&mut self, text: &str) -> i64 {
        let found = self.string_table.iter().position(|known| known == text);
        found.unwrap_or_else(|| {
            self.string_table.push(text.to_owned());
            self.string_table.len() - 1
        }) as i64
    }
}

/// Finds the strings of a table in constant time, to add many of them.
#[derive(Debug, Default)]
pub struct Interner(HashMap<String, i64>);

impl Interner {
    /// Knows the strings of this table.
    pub fn new(table: &[String]) -> Self {
        Self(table.iter().enumerate().map(|(index, text)| (text.clone(), index as i64)).collect())
    }

    /// Returns the index of a string in the table that this interner knows; adds the string if it is missing.
    pub fn intern(&mut self, table: &mut Vec<String>, text: &str) -> i64 {
        if let Some(&index) = self.0.get(text) {
            return index;
        }
        let index = table.len() as i64;
        table.push(text.to_owned());
        self.0.insert(text.to_owned(), index);
        index
    }
}

/// When the samples of a stack were taken, as profiles of ours have it: core/profile/store/stacks.h says how it is written.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<u8>);

/// A sample of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since the profile's start.
    pub at: i64,
    /// Ticks that it stands for.
    pub weight: u64,
}

impl Times {
    /// Whether there are none: the profile's or this stack's were not kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each of them, in the order in which they came; nearly that of time.
    pub fn iter(&self) -> impl Iterator<Item = Moment> + '_ {
        let (mut reader, mut at) = (Reader(&self.0), 0i64);
        // What was read is sound.
        std::iter::from_fn(move || next(&mut reader, &mut at).ok().flatten())
    }

    pub(crate) fn from_moments(moments: impl Iterator<Item = Moment>) -> Self {
        let (mut bytes, mut before) = (Vec::new(), 0i64);
        for Moment { at, weight } in moments {
            let since = at.wrapping_sub(before);
            put_number(&mut bytes, ((since << 1 ^ since >> 63) as u64) << 1 | u64::from(weight != 1));
            if weight != 1 {
                put_number(&mut bytes, weight);
            }
            before = at;
        }
        Self(bytes)
    }

    /// Counted from a start so many microseconds earlier.
    pub(crate) fn shifted(&self, microseconds: i64) -> Self {
        Self::from_moments(self.iter().map(|moment| Moment { at: moment.at.saturating_add(microseconds), ..moment }))
    }
}

fn next(reader: &mut Reader<'_>, at: &mut i64) -> Result<Option<Moment>, Damage> {
    if reader.0.is_empty() {
        return Ok(None);
    }
    let number = reader.number()?;
    let zigzag = number >> 1;
    *at = at.wrapping_add((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
    let weight = if number & 1 == 0 { 1 } else { reader.number()? };
    Ok(Some(Moment { at: *at, weight }))
}

impl Field for Times {
    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(out, tag, &self.0);
        }
    }
    fn merge(&mut self, value: Value<'_>) -> Result<(), Damage> {
        // What cannot be read is a field of that number by somebody else.
        let Value::Bytes(bytes) = value else { return Ok(()) };
        let (mut reader, mut at) = (Reader(bytes), 0);
        while let Ok(moment) = next(&mut reader, &mut at) {
            if moment.is_none() {
                self.0.extend_from_slice(bytes);
                break;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> ProfileMessage {
        ProfileMessage {
            sample_type: vec![ValueType { r#type: 1, unit: 2 }],
            sample: vec![Sample {
                location_id: vec![1, 300],
                value: vec![-1, 0],
                label: vec![Label { key: 1, num: i64::MIN, ..Label::default() }],
                ..Sample::default()
            }],
            mapping: vec![Mapping { id: 1, memory_start: u64::MAX, has_functions: true, ..Mapping::default() }],
            location: vec![Location {
                id: 1,
                line: vec![Line { function_id: 1, ..Line::default() }],
                ..Location::default()
            }],
            function: vec![Function { id: 1, ..Function::default() }],
            string_table: vec![String::new(), "a".into()],
            period_type: Some(ValueType::default()),
            comment: vec![1],
            ..ProfileMessage::default()
        }
    }

    fn bytes(message: &ProfileMessage) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(ProfileMessage::decode(&bytes(&whole())), Ok(whole()));
    }

    #[test]
    fn lists_may_be_unpacked_and_unknown_fields_are_passed_over() {
        // Field 1 twice as single numbers, field 15 as eight bytes, field 16 as four.
        let sample = [8, 5, 8, 6, 15 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x85, 1, 0, 0, 0, 0];
        assert_eq!(Sample::decode(&sample).unwrap().location_id, [5, 6]);
    }

    #[test]
    fn every_cut_is_read_or_refused() {
        let whole = bytes(&whole());
        let refused = (0..whole.len()).filter(|&end| ProfileMessage::decode(&whole[..end]).is_err()).count();
        assert!(refused > whole.len() / 2, "{refused} of {}", whole.len());
        assert!(ProfileMessage::decode(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
        assert!(ProfileMessage::decode(&[0xff; 11]).is_err());
        assert!(ProfileMessage::decode(&[0x0b]).is_err());
    }

    fn moments() -> Vec<Moment> {
        let at = [5, 5, 10_000, 9_990, -3, i64::from(u32::MAX) * 1000];
        at.iter().zip(1..).map(|(&at, weight)| Moment { at, weight }).collect()
    }

    #[test]
    fn times_that_are_written_are_read() {
        let times = Times::from_moments(moments().into_iter());
        assert_eq!(times.iter().collect::<Vec<_>>(), moments());
        let later = times.shifted(7);
        assert!(later.iter().zip(moments()).all(|(a, b)| a.at == b.at + 7 && a.weight == b.weight));
    }

    #[test]
    fn what_is_no_list_of_times_is_passed_over() {
        let mut times = Times::default();
        for bytes in [&[0x80][..], &[1], &[4, 0xff, 0xff]] {
            assert!(times.merge(Value::Bytes(bytes)).is_ok() && times.is_empty(), "{bytes:?}");
        }
        assert!(times.merge(Value::Number(1)).is_ok() && times.is_empty());
        assert_eq!((times.merge(Value::Bytes(&[4])), times.iter().count()), (Ok(()), 1));
    }
}
