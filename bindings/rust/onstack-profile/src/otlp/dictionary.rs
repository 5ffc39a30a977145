// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables that all Profiles of a message share. Entries are made when something refers to them.

use std::collections::HashMap;

use crate::message::{Function, Location, Mapping, ProfileMessage, Sample};

use super::encode::{Out, Table};
use super::text_value;

pub(super) struct Dictionary<'a> {
    message: &'a ProfileMessage,
    locations_by_id: HashMap<u64, &'a Location>,
    functions_by_id: HashMap<u64, &'a Function>,
    mappings_by_id: HashMap<u64, &'a Mapping>,
    known: HashMap<u64, u64>,
    mappings: Table,
    locations: Table,
    functions: Table,
    links: Table,
    strings: Table,
    attributes: Table,
    stacks: Table,
}

impl<'a> Dictionary<'a> {
    pub(super) fn new(message: &'a ProfileMessage) -> Self {
        Self {
            message,
            locations_by_id: message.location.iter().map(|location| (location.id, location)).collect(),
            functions_by_id: message.function.iter().map(|function| (function.id, function)).collect(),
            mappings_by_id: message.mapping.iter().map(|mapping| (mapping.id, mapping)).collect(),
            known: HashMap::new(),
            mappings: Table::new(),
            locations: Table::new(),
            functions: Table::new(),
            links: Table::new(),
            strings: Table::new(),
            attributes: Table::new(),
            stacks: Table::new(),
        }
    }

    /// The number of a string of pprof's table.
    pub(super) fn string(&mut self, index: i64) -> u64 {
        self.strings.number(self.message.text(index).as_bytes())
    }

    pub(super) fn attribute(&mut self, key: &str, value: &Out) -> u64 {
        self.attribute_in(key, value, 0)
    }

    /// With a unit of pprof's string table; 0: none.
    pub(super) fn attribute_in(&mut self, key: &str, value: &Out, unit: i64) -> u64 {
        let mut attribute = Out::default();
        attribute.number(1, self.strings.number(key.as_bytes()));
        attribute.message(2, value);
        attribute.number(3, self.string(unit));
        self.attributes.number(&attribute.0)
    }

    pub(super) fn link(&mut self, link: &Out) -> u64 {
        self.links.number(&link.0)
    }

    pub(super) fn stack(&mut self, sample: &Sample) -> u64 {
        let locations: Vec<u64> = sample.location_id.iter().map(|&id| self.location(id)).collect();
        let mut stack = Out::default();
        stack.packed(1, locations);
        self.stacks.number(&stack.0)
    }

    /// A place of which nothing is known is the entry that says so.
    fn location(&mut self, id: u64) -> u64 {
        if let Some(&number) = self.known.get(&id) {
            return number;
        }
        let number = self.locations_by_id.get(&id).copied().map_or(0, |location| self.add_location(location));
        self.known.insert(id, number);
        number
    }

    fn add_location(&mut self, location: &Location) -> u64 {
        let mapping = self.mappings_by_id.get(&location.mapping_id).copied();
        let mut attributes = Vec::new();
        if let Some(language) = self.language(location, mapping) {
            attributes.push(self.attribute("profile.frame.type", &text_value(language)));
        }
        if location.is_folded {
            attributes.push(self.attribute("pprof.location.is_folded", &yes()));
        }
        let mut out = Out::default();
        out.number(1, mapping.map_or(0, |mapping| self.mapping(mapping)));
        out.number(2, location.address);
        for line in &location.line {
            let mut one = Out::default();
            one.number(1, self.function(line.function_id));
            one.number(2, line.line as u64);
            one.number(3, line.column as u64);
            out.message(3, &one);
        }
        out.packed(4, attributes);
        self.locations.number(&out.0)
    }

    fn function(&mut self, id: u64) -> u64 {
        let Some(function) = self.functions_by_id.get(&id).copied() else { return 0 };
        let mut out = Out::default();
        out.number(1, self.string(function.name));
        out.number(2, self.string(function.system_name));
        out.number(3, self.string(function.filename));
        out.number(4, function.start_line as u64);
        self.functions.number(&out.0)
    }

    fn mapping(&mut self, mapping: &Mapping) -> u64 {
        let mut attributes = Vec::new();
        if mapping.build_id != 0 {
            let build_id = text_value(self.message.text(mapping.build_id));
            attributes.push(self.attribute("process.executable.build_id.gnu", &build_id));
        }
        for (key, set) in [
            ("pprof.mapping.has_functions", mapping.has_functions),
            ("pprof.mapping.has_filenames", mapping.has_filenames),
            ("pprof.mapping.has_line_numbers", mapping.has_line_numbers),
            ("pprof.mapping.has_inline_frames", mapping.has_inline_frames),
        ] {
            if set {
                attributes.push(self.attribute(key, &yes()));
            }
        }
        let mut out = Out::default();
        out.number(1, mapping.memory_start);
        out.number(2, mapping.memory_limit);
        out.number(3, mapping.file_offset);
        out.number(4, self.string(mapping.filename));
        out.packed(5, attributes);
        self.mappings.number(&out.0)
    }

    /// The language of the function that was compiled for this place, the last of its lines: by the name of its source
    /// file, or in Rust by the form of its symbol. Go's assembly files are C's by their ends, and their functions have a
    /// package. Of what lies in memory without a file nobody knows who wrote it.
    fn language(&self, location: &Location, mapping: Option<&Mapping>) -> Option<&'static str> {
        let path = self.message.text(mapping?.filename);
        if path.is_empty() || path.starts_with("//") || path.starts_with('[') {
            return None;
        }
        let function = location.line.last().and_then(|line| self.functions_by_id.get(&line.function_id));
        let Some(function) = function else { return Some("native") };
        let (file, name) = (self.message.text(function.filename), self.message.text(function.system_name));
        let assembly = file.ends_with(".s") && name.contains('.');
        Some(match file {
            file if file.ends_with(".go") || assembly => "go",
            file if file.ends_with(".rs") || is_rust_name(name) => "rust",
            _ => "native",
        })
    }

    /// The message, once all has been said.
    pub(super) fn finish(self) -> Out {
        let mut out = Out::default();
        self.mappings.put(1, &mut out);
        self.locations.put(2, &mut out);
        self.functions.put(3, &mut out);
        // Of entry 0 the specification allows ids of zeros as well; servers refuse those.
        self.links.put(4, &mut out);
        self.strings.put(5, &mut out);
        self.attributes.put(6, &mut out);
        self.stacks.put(7, &mut out);
        out
    }
}

fn yes() -> Out {
    let mut value = Out::default();
    value.chosen(2, 1);
    value
}

/// The older form ends in a part of 17 characters: a hash.
pub(super) fn is_rust_name(name: &str) -> bool {
    let hash = || name.len().checked_sub(20).and_then(|at| name.get(at..));
    name.starts_with("_R")
        || name.starts_with("_ZN") && name.ends_with('E') && hash().is_some_and(|hash| hash.starts_with("17h"))
}
