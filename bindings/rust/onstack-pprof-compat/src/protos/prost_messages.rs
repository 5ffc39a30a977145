// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages as types of `prost`. Strings are indices into [`Profile::string_table`], whose first entry is empty.

use prost::Message;

/// A whole profile.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What the values of a sample mean, in their order.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// The stacks and their values.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// The files that were mapped.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// The places in the program.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// The functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// All strings.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// A pattern of frames to leave out.
    #[prost(int64, tag = "7")]
    pub drop_frames: i64,
    /// A pattern of frames to keep all the same.
    #[prost(int64, tag = "8")]
    pub keep_frames: i64,
    /// When it began, nanoseconds of Unix time.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// How long it took, nanoseconds.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What lies between two ticks.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// How much of it.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Remarks for people.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The type of value that is shown first.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// What a value means.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    /// As `cpu`.
    #[prost(int64, tag = "1")]
    pub ty: i64,
    /// As `nanoseconds`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// A stack with its values and labels.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// [`Location::id`]s, leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One for each [`Profile::sample_type`].
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// As the thread's name.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A remark on a sample.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Label {
    /// Its name.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Its value, if that is a string.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// Its value, if that is a number.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// The number's unit.
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// A file that was mapped.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Mapping {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// First address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// The address behind the last.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// Where in the file the first address lies.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// The file.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Its build id.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Whether its functions were looked up.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Whether file names were.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Whether line numbers were.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Whether inlined functions were.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place in the program.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// [`Mapping::id`], or 0.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// Its address.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// The innermost inlined function first, the one that holds the code last.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
    /// Whether several functions share the code.
    #[prost(bool, tag = "5")]
    pub is_folded: bool,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    /// [`Function::id`].
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// In its file.
    #[prost(int64, tag = "2")]
    pub line: i64,
    /// In that line.
    #[prost(int64, tag = "3")]
    pub column: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// For people.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// As in the symbol table.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// Its source file.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// Where it begins in that file.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
