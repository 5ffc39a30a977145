// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of a pprof profile, as `github.com/google/pprof/proto/profile.proto` has them. Strings are indices into
//! the profile's table, whose first entry is empty; what that file says about each field holds here.

use crate::times::Times;
use crate::wire::{Damage, Field, Message, Value};

/// Bytes of a profile that are read at most, as they come and unpacked.
pub(crate) const MAX_BYTES: u64 = 512 << 20;

macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident { $($tag:literal $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
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
        1 sample_type: Vec<ValueType>,
        2 sample: Vec<Sample>,
        3 mapping: Vec<Mapping>,
        4 location: Vec<Location>,
        5 function: Vec<Function>,
        6 string_table: Vec<String>,
        7 drop_frames: i64,
        8 keep_frames: i64,
        9 time_nanos: i64,
        10 duration_nanos: i64,
        11 period_type: Option<ValueType>,
        12 period: i64,
        13 comment: Vec<i64>,
        14 default_sample_type: i64,
    }

    #[derive(Copy)]
    ValueType {
        1 r#type: i64,
        2 unit: i64,
    }

    Sample {
        1 location_id: Vec<u64>,
        2 value: Vec<i64>,
        3 label: Vec<Label>,
        // Not pprof's: others pass it over.
        1000 times: Times,
    }

    #[derive(Copy)]
    Label {
        1 key: i64,
        2 str: i64,
        3 num: i64,
        4 num_unit: i64,
    }

    #[derive(Copy)]
    Mapping {
        1 id: u64,
        2 memory_start: u64,
        3 memory_limit: u64,
        4 file_offset: u64,
        5 filename: i64,
        6 build_id: i64,
        7 has_functions: bool,
        8 has_filenames: bool,
        9 has_line_numbers: bool,
        10 has_inline_frames: bool,
    }

    Location {
        1 id: u64,
        2 mapping_id: u64,
        3 address: u64,
        4 line: Vec<Line>,
        5 is_folded: bool,
    }

    #[derive(Copy)]
    Line {
        1 function_id: u64,
        2 line: i64,
        3 column: i64,
    }

    #[derive(Copy)]
    Function {
        1 id: u64,
        2 name: i64,
        3 system_name: i64,
        4 filename: i64,
        5 start_line: i64,
    }
}

impl Mapping {
    pub(crate) fn holds(&self, address: u64) -> bool {
        (self.memory_start..self.memory_limit).contains(&address)
    }
}

impl ProfileMessage {
    /// The string of that index; empty for one that leads nowhere.
    pub(crate) fn text(&self, index: i64) -> &str {
        let found = usize::try_from(index).ok().and_then(|index| self.string_table.get(index));
        found.map_or("", String::as_str)
    }

    pub(crate) fn comments(&self) -> impl Iterator<Item = &str> {
        self.comment.iter().map(|&index| self.text(index))
    }

    /// The index of a string in the table; adds it. For a handful of strings: it looks at all of them.
    pub(crate) fn intern(&mut self, text: &str) -> i64 {
        let found = self.string_table.iter().position(|known| known == text);
        found.unwrap_or_else(|| {
            self.string_table.push(text.to_owned());
            self.string_table.len() - 1
        }) as i64
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

    #[cfg(feature = "prost-codec")]
    #[test]
    fn another_codec_reads_and_writes_the_same() {
        use prost::Message as _;
        let other = crate::protos::prost_messages::Profile::decode(&bytes(&whole())[..]).unwrap();
        assert_eq!(ProfileMessage::decode(&other.encode_to_vec()), Ok(whole()));
    }
}
