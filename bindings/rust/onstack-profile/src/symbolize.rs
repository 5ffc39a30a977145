// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names, lines and inlined functions out of the debug information of the files that profiles name, of other processes or of
//! this one. What has none, or lies in a file that was replaced since, keeps its name of the symbol table.
//!
//! What is read lives for one call: debug information of a large program takes much memory, and reports are rare.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use addr2line::gimli;
use object::{Object, ObjectSegment, ReadCache, SegmentFlags};
use onstack::Named;

use crate::demangle::demangle;
use crate::dwarf::{self, DebugInfo};
use crate::message::{Function, Interner, Line, Mapping, ProfileMessage};
use crate::storage::{open_regular, Header, Storage};

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
    let cache = ReadCache::new(open_regular(path)?);
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
    strings: Interner,
    last: u64,
}

impl Functions {
    fn of(message: &ProfileMessage) -> Self {
        let last = message.function.iter().map(|function| function.id).max().unwrap_or(0);
        Self { known: HashMap::new(), strings: Interner::new(&message.string_table), last }
    }

    fn text(&mut self, message: &mut ProfileMessage, text: &str) -> i64 {
        self.strings.intern(&mut message.string_table, text)
    }

    fn line(&mut self, message: &mut ProfileMessage, line: &Named) -> Line {
        let system_name = self.text(message, &line.system_name);
        let name = if line.name.is_empty() { system_name } else { self.text(message, &line.name) };
        let filename = self.text(message, &line.file);
        let last = &mut self.last;
        let function_id = *self.known.entry((system_name, name, filename)).or_insert_with(|| {
            *last += 1;
            message.function.push(Function { id: *last, name, system_name, filename, ..Function::default() });
            *last
        });
        Line { function_id, line: line.line, ..Line::default() }
    }
}

/// The functions at an address in the file's own terms, the innermost inlined one first; none when debug information
/// does not name all.
fn lines(info: &DebugInfo<'_>, address: u64) -> Option<Vec<Named>> {
    let mut frames = info.frames(address)?;
    let mut lines = Vec::new();
    let mut language = None;
    while let Some(frame) = frames.next().ok()? {
        let function = frame.function?;
        let system_name = dwarf::text(&function.name);
        let location = frame.location.as_ref();
        language = function.language;
        lines.push(Named {
            name: demangle(&system_name).unwrap_or_default(),
            system_name: system_name.into_owned(),
            file: location.and_then(|location| location.file).unwrap_or_default().to_owned(),
            line: location.and_then(|location| location.line).map_or(0, i64::from),
        });
    }
    let holder = lines.last_mut()?;
    if holder.name.is_empty() && has_manglings(language) {
        take_full_name(holder, info.nearest_symbol(address));
    }
    Some(lines)
}

/// Names of C are whole in debug information, and reading a symbol table costs more than all else for a library of it.
fn has_manglings(language: Option<gimli::DwLang>) -> bool {
    !matches!(language, Some(gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11))
}

/// Brief debug information (`line-tables-only`) says `run` where the symbol table says `server::run`. The table's symbol is
/// only the nearest one, so it counts if it names the same function.
fn take_full_name(line: &mut Named, symbol: Option<&str>) {
    let full = symbol.and_then(|symbol| Some((symbol, demangle(symbol)?)));
    let Some((symbol, name)) = full else { return };
    if last_part(&name) == last_part(&line.system_name) {
        (line.system_name, line.name) = (symbol.to_owned(), name);
    }
}

/// The last part of a path without its arguments: `call_once` of `core::FnOnce::call_once<F>`. All closures are alike:
/// the manglings number them in different ways.
fn last_part(path: &str) -> &str {
    let mut depth = 0i32;
    let mut start = 0;
    let mut end = None;
    for (index, byte) in path.bytes().enumerate() {
        match byte {
            b'<' | b'(' => {
                if depth == 0 {
                    end.get_or_insert(index);
                }
                depth += 1;
            }
            b'>' | b')' => depth -= 1,
            // Of `name::<T>` the part before the arguments remains.
            b':' if depth == 0 && !path[index + 1..].starts_with(['<', ':']) => (start, end) = (index + 1, None),
            b':' if depth == 0 => {
                end.get_or_insert(index);
            }
            _ => {}
        }
    }
    let part = path.get(start..end.unwrap_or(path.len())).unwrap_or(path);
    if part.contains("{closure") {
        "{closure}"
    } else {
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_path() {
        let cases = [
            ("heavy", "heavy"),
            ("guard::common::heavy", "heavy"),
            ("call_once<guard::shares::{closure_env#0}, ()>", "call_once"),
            ("core::ops::function::FnOnce::call_once", "call_once"),
            ("std::panic::catch_unwind::<core::Unwind<F>, ()>", "catch_unwind"),
            ("<[u8; 4] as a::Length>::length", "length"),
            ("a::b::{{closure}}", "{closure}"),
            ("{closure#1}", "{closure}"),
            ("ns::f(std::vector<int>)", "f"),
            ("", ""),
        ];
        for (path, part) in cases {
            assert_eq!(last_part(path), part, "{path}");
        }
    }

    #[test]
    fn a_neighbours_symbol_is_not_believed() {
        let line = || Named { system_name: "run".into(), ..Named::default() };
        let mut same = line();
        take_full_name(&mut same, Some("_ZN6server3run17h0123456789abcdefE"));
        assert_eq!(same.name, "server::run");
        let mut neighbour = line();
        take_full_name(&mut neighbour, Some("_ZN6server4stop17h0123456789abcdefE"));
        assert_eq!(neighbour, line());
    }
}
