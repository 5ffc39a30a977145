// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads stacks of names out of a pprof profile. A profile from a file may say anything: what an index or id does not
//! lead to is empty or unnamed, never a failure.

use std::borrow::Cow;
use std::collections::HashMap;

use regex_lite::Regex;

use crate::message::{Function, Line, Location, Mapping, ProfileMessage, Sample};

/// A frame whose id leads nowhere.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// A profile with its ids looked up.
pub(crate) struct Stacks<'a> {
    pub(crate) profile: &'a ProfileMessage,
    locations: HashMap<u64, &'a Location>,
    functions: HashMap<u64, &'a Function>,
    mappings: HashMap<u64, &'a Mapping>,
    /// Functions that are left out, with what they call.
    dropped: Option<Regex>,
}

impl<'a> Stacks<'a> {
    pub(crate) fn new(profile: &'a ProfileMessage) -> Self {
        Self {
            profile,
            locations: profile.location.iter().map(|l| (l.id, l)).collect(),
            functions: profile.function.iter().map(|f| (f.id, f)).collect(),
            mappings: profile.mapping.iter().map(|m| (m.id, m)).collect(),
            // One that this crate cannot read leaves nothing out.
            dropped: match profile.text(profile.drop_frames) {
                "" => None,
                text => Regex::new(&format!("^(?:{text})$")).ok(),
            },
        }
    }

    pub(crate) fn text(&self, index: i64) -> &'a str {
        self.profile.text(index)
    }

    /// The index of the values of that type.
    pub(crate) fn value_of_type(&self, name: &str) -> Option<usize> {
        self.profile.sample_type.iter().position(|value| self.text(value.r#type) == name)
    }

    /// The index of the values that the profile says it wants to be shown.
    pub(crate) fn named_value(&self) -> Option<usize> {
        match self.text(self.profile.default_sample_type) {
            "" => None,
            name => self.value_of_type(name),
        }
    }

    /// The index of the values that are shown: the last ones unless the profile says otherwise.
    pub(crate) fn default_value(&self) -> usize {
        self.named_value().unwrap_or(self.profile.sample_type.len().saturating_sub(1))
    }

    /// Type and unit of the values of that index.
    pub(crate) fn value_names(&self, index: usize) -> (&'a str, &'a str) {
        self.profile.sample_type.get(index).map_or(("", ""), |value| (self.text(value.r#type), self.text(value.unit)))
    }

    /// The thread's name; nothing where the profile does not tell threads apart.
    pub(crate) fn thread(&self, sample: &Sample) -> Option<&'a str> {
        let label = |key| sample.label.iter().find(|label| self.text(label.key) == key);
        match label("thread").map(|label| self.text(label.str)) {
            None | Some("") => label("thread_id").map(|_| "[unnamed thread]"),
            name => name,
        }
    }

    /// The name of the file that the leaf lies in.
    pub(crate) fn leaf_file(&self, sample: &Sample) -> &'a str {
        let location = sample.location_id.first().and_then(|id| self.locations.get(id));
        let mapping = location.and_then(|location| self.mappings.get(&location.mapping_id));
        match mapping.map_or("", |mapping| self.text(mapping.filename)).rsplit('/').next() {
            None | Some("") => UNKNOWN,
            Some(name) => name,
        }
    }

    /// The names of the frames, leaf first, inlined ones included; without those that the profile wants left out.
    pub(crate) fn names(&self, sample: &Sample) -> Vec<String> {
        let mut names = self.all_names(sample);
        names.drain(..self.first_kept(names.len(), |at| &names[at]));
        names
    }

    /// The first of so many frames, leaf first, that the profile does not want left out.
    pub(crate) fn first_kept<'n>(&self, count: usize, name: impl Fn(usize) -> &'n str) -> usize {
        let Some(dropped) = &self.dropped else { return 0 };
        let is_dropped = |at: &usize| dropped.is_match(bare(name(*at)));
        // As pprof does it: from the root on, and never the whole stack.
        (0..count).rev().skip_while(is_dropped).find(is_dropped).map_or(0, |at| at + 1)
    }

    fn all_names(&self, sample: &Sample) -> Vec<String> {
        let mut names = Vec::with_capacity(sample.location_id.len());
        self.each_line(sample, |name, _, _| names.push(name.into_owned()));
        names
    }

    /// The frames, leaf first, inlined ones included: name, place and function, as far as the profile has them.
    pub(crate) fn each_line(
        &self,
        sample: &Sample,
        mut visit: impl FnMut(Cow<'a, str>, Option<&'a Location>, Option<&'a Function>),
    ) {
        for id in &sample.location_id {
            let Some(&location) = self.locations.get(id) else {
                visit(UNKNOWN.into(), None, None);
                continue;
            };
            self.each_line_of(location, |name, function| visit(name, Some(location), function));
        }
    }

    /// The functions at a place, the innermost first.
    pub(crate) fn each_line_of(
        &self,
        location: &'a Location,
        mut visit: impl FnMut(Cow<'a, str>, Option<&'a Function>),
    ) {
        if location.line.is_empty() {
            visit(self.place(location).into(), None);
        }
        for line in &location.line {
            visit(self.name(location, line), self.functions.get(&line.function_id).copied());
        }
    }

    /// The name of the file that a place lies in; "" where the profile does not say.
    pub(crate) fn mapping_file(&self, location: &Location) -> &'a str {
        self.mappings.get(&location.mapping_id).map_or("", |mapping| self.text(mapping.filename))
    }

    /// The paths of the files in which a frame of the sample has no name, each once. Generated code is not among them, in
    /// whatever memory it lies: no package has its names.
    pub(crate) fn files_without_names(&self, sample: &Sample) -> Vec<&'a str> {
        // The core's writers give such a frame a function by the name of its place.
        let nameless = |location: &Location| !location.line.iter().any(|line| is_named(&self.name(location, line)));
        let locations = sample.location_id.iter().filter_map(|id| self.locations.get(id).copied());
        let files = locations.filter(|location| nameless(location)).map(|location| self.mapping_file(location));
        let mut files: Vec<_> = files.filter(|file| is_file_of_code(file)).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    fn name(&self, location: &Location, line: &Line) -> Cow<'a, str> {
        let Some(function) = self.functions.get(&line.function_id) else { return self.place(location).into() };
        match (self.text(function.name), self.text(function.system_name)) {
            ("", "") => self.place(location).into(),
            ("", name) | (name, _) => name.into(),
        }
    }

    /// What can be said of a place without a name: the file and where in it.
    fn place(&self, location: &Location) -> String {
        let address = location.address;
        let Some(mapping) = self.mappings.get(&location.mapping_id) else { return format!("{address:#x}") };
        let path = self.text(mapping.filename);
        let file = path.rsplit('/').next().unwrap_or(path);
        if file.is_empty() {
            return format!("{address:#x}");
        }
        let offset = address.wrapping_sub(mapping.memory_start).wrapping_add(mapping.file_offset);
        format!("{file}+{offset:#x}")
    }
}

/// Not `[vdso]`, `/memfd:code (deleted)` or `/dev/zero`.
fn is_file_of_code(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("/memfd:") && !path.starts_with("/dev/")
}

/// Without the arguments of a C++ function.
fn bare(name: &str) -> &str {
    let skip = ["(anonymous namespace)", "operator()"]
        .iter()
        .find(|part| name.starts_with(**part))
        .map_or(0, |part| part.len());
    name[skip..].find('(').map_or(name, |at| &name[..skip + at])
}

/// Whether a frame's name is the name of a function, and not a bracketed remark, a file and offset, or an address.
pub(crate) fn is_named(name: &str) -> bool {
    let hexadecimal = |text: &str| {
        text.strip_prefix("0x")
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    if name.is_empty() || (name.starts_with('[') && name.ends_with(']')) || hexadecimal(name) {
        return false;
    }
    !name.rsplit_once('+').is_some_and(|(_, offset)| hexadecimal(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_offsets_and_addresses_are_no_names() {
        for name in ["", "[wasm]", "[onstack: too many stacks]", "0x7f12ab", "libc.so.6+0x16db20", "a b.so+0x1"] {
            assert!(!is_named(name), "{name}");
        }
        for name in
            ["main", "<[T] as core::fmt::Debug>::fmt", "core::slice::<impl [u8]>::len", "0xcafe::run", "a+b", "+0x"]
        {
            assert!(is_named(name), "{name}");
        }
    }

    #[test]
    fn allocators_are_left_out_with_what_they_call() {
        let texts = ["", "main", "grow", "operator new(unsigned long)", "malloc", "(malloc|operator new)"];
        let function = |id: u64| Function { id, name: id as i64, ..Function::default() };
        let location =
            |id| Location { id, line: vec![Line { function_id: id, ..Line::default() }], ..Location::default() };
        let profile = ProfileMessage {
            location: (1..5).map(location).collect(),
            function: (1..5).map(function).collect(),
            string_table: texts.map(String::from).to_vec(),
            drop_frames: 5,
            ..ProfileMessage::default()
        };
        let stacks = Stacks::new(&profile);
        let names = |ids: &[u64]| stacks.names(&Sample { location_id: ids.to_vec(), ..Sample::default() });
        assert_eq!(names(&[4, 3, 2, 1]), ["grow", "main"]);
        assert_eq!(names(&[2, 1]), ["grow", "main"]);
        assert_eq!(names(&[4, 3]), ["malloc", "operator new(unsigned long)"]);
        let unreadable =
            ProfileMessage { string_table: vec![String::new(), "(".into()], drop_frames: 1, ..profile.clone() };
        assert!(Stacks::new(&unreadable).dropped.is_none());
    }

    #[test]
    fn wild_indices_are_unnamed() {
        let profile = ProfileMessage {
            location: vec![
                Location {
                    id: 1,
                    address: 0x1234,
                    line: vec![Line { function_id: 9, ..Line::default() }],
                    ..Location::default()
                },
                Location { id: 2, address: 0x5010, mapping_id: 3, ..Location::default() },
            ],
            mapping: vec![Mapping {
                id: 3,
                memory_start: 0x5000,
                file_offset: 0x100,
                filename: 1,
                ..Mapping::default()
            }],
            string_table: vec![String::new(), "/lib/libx.so".into()],
            default_sample_type: -5,
            ..ProfileMessage::default()
        };
        let stacks = Stacks::new(&profile);
        let sample = Sample { location_id: vec![1, 2, 77], ..Sample::default() };
        assert_eq!(stacks.names(&sample), ["0x1234", "libx.so+0x110", "[unknown]"]);
        assert_eq!(stacks.files_without_names(&sample), ["/lib/libx.so"]);
        assert_eq!(stacks.default_value(), 0);
        assert_eq!(stacks.thread(&sample), None);
    }
}
