// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines and inlined functions for profiles of other processes, out of the files that they name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use object::{Object, ObjectSegment, ReadCache, SegmentFlags};

use crate::dwarf::DebugInfo;
use crate::elf::Header;
use crate::message::{Function, Line as MessageLine, Mapping, ProfileMessage};
use crate::regular_file;
use crate::storage::Storage;
use crate::symbolize::{lines, Line};

/// Gives places that have no file names, lines and inlined functions, as far as debug information on this machine says
/// them. A file that is not the one that ran, by its build id, is not asked. Each is opened once for all profiles.
pub(crate) fn complete(messages: &mut [&mut ProfileMessage]) {
    let mut files: BTreeMap<(String, String), Vec<Part>> = BTreeMap::new();
    for (message, from) in messages.iter().enumerate() {
        for (file, part) in parts(message, from) {
            files.entry(file).or_default().push(part);
        }
    }
    let mut functions: Vec<Functions> = messages.iter().map(|message| Functions::of(message)).collect();
    for ((path, build_id), parts) in files {
        let path = Path::new(&path);
        let placed: Vec<_> =
            parts.iter().filter_map(|part| Some((part, bias(path, &part.mapping, &build_id)?))).collect();
        let Some((_, (_, build_id))) = placed.first() else { continue };
        let storage = Storage::default();
        let open = || DebugInfo::open(path, Some(build_id), &storage);
        // As for a live report: a panic over strange debug information costs names.
        let Ok(Some(info)) = catch_unwind(AssertUnwindSafe(open)) else { continue };
        for (part, (bias, _)) in &placed {
            let message = &mut *messages[part.message];
            for &(address, index) in &part.wanted {
                let found = catch_unwind(AssertUnwindSafe(|| lines(&info, address.wrapping_sub(*bias))));
                if let Ok(Some(found)) = found {
                    let functions = &mut functions[part.message];
                    message.location[index].line = found.iter().map(|line| functions.line(message, line)).collect();
                }
            }
        }
    }
}

/// What is wanted of a file for one mapping of one of the messages: addresses in their order, and their places.
struct Part {
    message: usize,
    mapping: Mapping,
    wanted: Vec<(u64, usize)>,
}

/// With the file's path and build id.
fn parts(number: usize, message: &ProfileMessage) -> Vec<((String, String), Part)> {
    let with_file: HashSet<u64> =
        message.function.iter().filter(|function| function.filename != 0).map(|function| function.id).collect();
    let mut wanted: HashMap<u64, Vec<(u64, usize)>> = HashMap::new();
    for (index, location) in message.location.iter().enumerate().filter(|(_, location)| location.address != 0) {
        if !location.line.iter().any(|line| with_file.contains(&line.function_id)) {
            wanted.entry(location.mapping_id).or_default().push((location.address, index));
        }
    }
    let part = |mapping: &Mapping| {
        let mut wanted = wanted.remove(&mapping.id)?;
        wanted.sort_unstable();
        let file = (message.text(mapping.filename).to_owned(), message.text(mapping.build_id).to_owned());
        Some((file, Part { message: number, mapping: *mapping, wanted }))
    };
    message.mapping.iter().filter_map(part).collect()
}

/// Address in the process less address in the file's own terms, and the build id as it stands in the file; nothing for a
/// file of another build.
fn bias(path: &Path, mapping: &Mapping, build_id: &str) -> Option<(u64, Vec<u8>)> {
    if !path.is_absolute() {
        return None;
    }
    let cache = ReadCache::new(regular_file::open(path)?);
    let file = object::read::elf::ElfFile::<Header, _>::parse(&cache).ok()?;
    let found = file.build_id().ok()??;
    if found.iter().map(|byte| format!("{byte:02x}")).collect::<String>() != build_id {
        return None;
    }
    // Two segments may share a page of the file; samples lie in the executable one.
    let executable = |segment: &object::read::elf::ElfSegment<'_, '_, Header, _>| matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_X != 0);
    let holds = |segment: &object::read::elf::ElfSegment<'_, '_, Header, _>| {
        let (start, size) = segment.file_range();
        // Mappings begin at pages, segments anywhere in one.
        mapping.file_offset.wrapping_add(PAGE) > start && mapping.file_offset < start.saturating_add(size)
    };
    let segment = file.segments().filter(executable).find(holds)?;
    let from_offset = segment.address().wrapping_sub(segment.file_range().0);
    Some((mapping.memory_start.wrapping_sub(mapping.file_offset).wrapping_sub(from_offset), found.to_vec()))
}

const PAGE: u64 = 4096;

/// The functions that were added, by names and file.
struct Functions {
    known: HashMap<(i64, i64, i64), u64>,
    strings: HashMap<String, i64>,
    last: u64,
}

impl Functions {
    fn of(message: &ProfileMessage) -> Self {
        let strings = message.string_table.iter().enumerate().map(|(index, text)| (text.clone(), index as i64));
        let last = message.function.iter().map(|function| function.id).max().unwrap_or(0);
        Self { known: HashMap::new(), strings: strings.collect(), last }
    }

    fn text(&mut self, message: &mut ProfileMessage, text: &str) -> i64 {
        *self.strings.entry(text.to_owned()).or_insert_with(|| {
            message.string_table.push(text.to_owned());
            message.string_table.len() as i64 - 1
        })
    }

    fn line(&mut self, message: &mut ProfileMessage, line: &Line) -> MessageLine {
        let system_name = self.text(message, &line.system_name.to_string_lossy());
        let name = line.name.as_ref().map_or(system_name, |name| self.text(message, &name.to_string_lossy()));
        let filename = line.file.as_ref().map_or(0, |file| self.text(message, &file.to_string_lossy()));
        let last = &mut self.last;
        let function_id = *self.known.entry((system_name, name, filename)).or_insert_with(|| {
            *last += 1;
            message.function.push(Function { id: *last, name, system_name, filename, ..Function::default() });
            *last
        });
        MessageLine { function_id, line: line.line, ..MessageLine::default() }
    }
}
