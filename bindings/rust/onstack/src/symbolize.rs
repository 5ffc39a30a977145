// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names, files, lines and inlined functions from debug information. What has none, or lies in a
//! file that was replaced since it was loaded, is left to the core, which reads symbol tables and believes a name only
//! inside the symbol's own size.
//!
//! Lives for one report: debug information of a large program takes much memory, and reports are rare.

use std::ffi::{c_int, c_void, CString};
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::slice;

use addr2line::gimli;
use onstack_sys as sys;

use crate::demangle::demangle;
use crate::dwarf::{self, DebugInfo};
use crate::module_file;
use crate::modules::{self, Module};
use crate::storage::Storage;

pub(crate) struct Symbolizer {
    modules: Vec<Module>,
}

/// A function at an address, as the core takes it.
pub(crate) struct Line {
    pub(crate) name: Option<CString>,
    pub(crate) system_name: CString,
    pub(crate) file: Option<CString>,
    pub(crate) line: i64,
}

/// One call of the core.
struct Call<'a> {
    addresses: &'a [u64],
    table: *mut sys::onstack_symbol_table,
}

impl Symbolizer {
    pub(crate) fn new() -> Self {
        Self { modules: modules::loaded() }
    }

    /// The function and the data that the core's writers take.
    pub(crate) fn callback(&mut self) -> (sys::onstack_symbolizer, *mut c_void) {
        (Some(symbolize), (self as *mut Self).cast())
    }

    /// Module by module, so that debug information of one is in memory at a time, and each in the order of addresses, so
    /// that what lies together is read together.
    fn name(&self, call: &Call<'_>) -> c_int {
        let module_of = |address| self.modules.iter().position(|module| module.contains(address));
        let mut order: Vec<(Option<usize>, u64, usize)> =
            call.addresses.iter().enumerate().map(|(index, &address)| (module_of(address), address, index)).collect();
        order.sort_unstable();
        let mut rest = &order[..];
        while let Some(&(module, ..)) = rest.first() {
            let (these, others) = rest.split_at(rest.partition_point(|(other, ..)| *other == module));
            let result = match module {
                Some(module) => call.by_debug_information(&self.modules[module], these),
                None => 0, // generated code: the core asks the perf map
            };
            if result < 0 {
                return result;
            }
            rest = others;
        }
        0
    }
}

impl Call<'_> {
    fn by_debug_information(&self, module: &Module, wanted: &[(Option<usize>, u64, usize)]) -> c_int {
        let Some(path) = module_file::of(module) else { return 0 };
        let storage = Storage::default();
        let open = || DebugInfo::open(&path, module.build_id.as_deref(), &storage);
        // Debug information of other people's making: a panic over it costs names, not the report.
        match catch_unwind(AssertUnwindSafe(open)) {
            Ok(Some(info)) => self.each(wanted, |address| lines(&info, address.wrapping_sub(module.bias))),
            _ => 0,
        }
    }

    fn each(&self, wanted: &[(Option<usize>, u64, usize)], lines: impl Fn(u64) -> Option<Vec<Line>>) -> c_int {
        for &(_, address, index) in wanted {
            let Ok(Some(lines)) = catch_unwind(AssertUnwindSafe(|| lines(address))) else { continue };
            for line in &lines {
                // SAFETY: the table is the one of this call.
                let result = unsafe { add(self.table, index, line) };
                if result < 0 {
                    return result;
                }
            }
        }
        0
    }
}

/// The functions at an address in the file's own terms, the innermost inlined one first; none when debug information
/// does not name all.
pub(crate) fn lines(info: &DebugInfo<'_>, address: u64) -> Option<Vec<Line>> {
    let mut frames = info.frames(address)?;
    let mut lines = Vec::new();
    let mut language = None;
    while let Some(frame) = frames.next().ok()? {
        let function = frame.function?;
        let system_name = dwarf::text(&function.name);
        let location = frame.location.as_ref();
        language = function.language;
        lines.push(Line {
            name: demangle(&system_name).and_then(|name| CString::new(name).ok()),
            system_name: CString::new(system_name.as_bytes()).ok()?,
            file: location.and_then(|l| l.file).and_then(|file| CString::new(file).ok()),
            line: location.and_then(|l| l.line).map_or(0, i64::from),
        });
    }
    let holder = lines.last_mut()?;
    if holder.name.is_none() && has_manglings(language) {
        holder.complete(info.nearest_symbol(address));
    }
    Some(lines)
}

/// Names of C are whole in debug information, and reading a symbol table costs more than all else for a library of it.
fn has_manglings(language: Option<gimli::DwLang>) -> bool {
    !matches!(language, Some(gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11))
}

impl Line {
    /// Brief debug information (`line-tables-only`) says `run` where the symbol table says `server::run`. The table's
    /// symbol is only the nearest one, so it counts if it names the same function.
    fn complete(&mut self, symbol: Option<&str>) {
        let full = symbol.and_then(|symbol| Some((symbol, demangle(symbol)?)));
        let Some((symbol, name)) = full else { return };
        let brief = self.system_name.to_string_lossy();
        if last_part(&name) != last_part(&brief) {
            return;
        }
        if let (Ok(symbol), Ok(name)) = (CString::new(symbol), CString::new(name)) {
            (self.system_name, self.name) = (symbol, Some(name));
        }
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

unsafe extern "C" fn symbolize(
    data: *mut c_void,
    addresses: *const u64,
    count: usize,
    table: *mut sys::onstack_symbol_table,
) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: the data is the `Symbolizer` given to this write; the core says how many addresses there are.
    let (symbolizer, addresses) = unsafe { (&*data.cast::<Symbolizer>(), slice::from_raw_parts(addresses, count)) };
    symbolizer.name(&Call { addresses, table })
}

/// # Safety
/// `table` is the table of the symbolizer call that is running.
unsafe fn add(table: *mut sys::onstack_symbol_table, index: usize, line: &Line) -> c_int {
    let raw = sys::onstack_symbol_line {
        size: size_of::<sys::onstack_symbol_line>() as u32,
        reserved: 0,
        name: line.name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
        system_name: line.system_name.as_ptr(),
        file: line.file.as_ref().map_or(ptr::null(), |file| file.as_ptr()),
        line: line.line,
        start_line: 0,
    };
    // SAFETY: the strings live during the call; the table is the caller's promise.
    unsafe { sys::onstack_symbol_add(table, index, &raw) }
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
        let line = || Line { name: None, system_name: CString::new("run").unwrap(), file: None, line: 0 };
        let mut same = line();
        same.complete(Some("_ZN6server3run17h0123456789abcdefE"));
        assert_eq!(same.name.unwrap().to_str(), Ok("server::run"));
        let mut neighbour = line();
        neighbour.complete(Some("_ZN6server4stop17h0123456789abcdefE"));
        assert!(neighbour.name.is_none());
        assert_eq!(neighbour.system_name.to_str(), Ok("run"));
    }
}
