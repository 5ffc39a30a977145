// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names, files, lines and inlined functions from debug information. What has none is left to the core, which reads
//! symbol tables and believes a name only inside the symbol's own size.
//!
//! Lives for one report: debug information of a large program takes much memory, and reports are rare.

use std::collections::HashMap;
use std::ffi::{c_int, c_void, CString};
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::slice;

use addr2line::Loader;
use onstack_sys as sys;

use crate::debug_file;
use crate::demangle::demangle;
use crate::modules::{self, Module};

pub(crate) struct Symbolizer {
    modules: Vec<Module>,
    #[cfg(feature = "perfmaps")]
    generated: crate::perf_map::PerfMap,
    /// By index of `modules`; nothing for a file that cannot be read or has no debug information to offer.
    loaders: HashMap<usize, Option<Loader>>,
}

/// A function at an address, as the core takes it.
struct Line {
    name: Option<CString>,
    system_name: CString,
    file: Option<CString>,
    line: i64,
}

impl Symbolizer {
    pub(crate) fn new() -> Self {
        Self {
            modules: modules::loaded(),
            #[cfg(feature = "perfmaps")]
            generated: crate::perf_map::PerfMap::of_this_process(),
            loaders: HashMap::new(),
        }
    }

    /// The function and the data that the core's writers take.
    pub(crate) fn callback(&mut self) -> (sys::onstack_symbolizer, *mut c_void) {
        (Some(symbolize), (self as *mut Self).cast())
    }

    /// The functions at an address, the innermost inlined one first; none when debug information does not name all.
    fn lines(&mut self, address: u64) -> Option<Vec<Line>> {
        let Some(index) = self.modules.iter().position(|module| module.contains(address)) else {
            return self.generated_line(address).map(|line| vec![line]);
        };
        let module = &self.modules[index];
        let loader = self.loaders.entry(index).or_insert_with(|| debug_file::open(&module.path));
        let (loader, address) = (loader.as_ref()?, address.wrapping_sub(module.bias));
        let mut frames = loader.find_frames(address).ok()?;
        let mut lines = Vec::new();
        while let Some(frame) = frames.next().ok()? {
            let function = frame.function?;
            let system_name = function.raw_name().ok()?;
            let location = frame.location.as_ref();
            lines.push(Line {
                name: demangle(&system_name).and_then(|name| CString::new(name).ok()),
                system_name: CString::new(system_name.as_bytes()).ok()?,
                file: location.and_then(|l| l.file).and_then(|file| CString::new(file).ok()),
                line: location.and_then(|l| l.line).map_or(0, i64::from),
            });
        }
        let holder = lines.last_mut()?;
        if holder.name.is_none() {
            holder.complete(loader.find_symbol(address));
        }
        Some(lines)
    }

    #[cfg(feature = "perfmaps")]
    fn generated_line(&self, address: u64) -> Option<Line> {
        let system_name = CString::new(self.generated.find(address)?).ok()?;
        Some(Line { name: None, system_name, file: None, line: 0 })
    }

    #[cfg(not(feature = "perfmaps"))]
    fn generated_line(&self, _address: u64) -> Option<Line> {
        None
    }
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
    // SAFETY: the data is the `Symbolizer` given to this write, which nobody else uses meanwhile.
    let symbolizer = unsafe { &mut *data.cast::<Symbolizer>() };
    // SAFETY: the core says how many addresses there are.
    let addresses = unsafe { slice::from_raw_parts(addresses, count) };
    for (index, &address) in addresses.iter().enumerate() {
        // Debug information of other people's making: a panic over it costs one address its name.
        let Ok(Some(lines)) = catch_unwind(AssertUnwindSafe(|| symbolizer.lines(address))) else { continue };
        for line in &lines {
            // SAFETY: the table is the one of this call.
            let result = unsafe { add(table, index, line) };
            if result < 0 {
                return result;
            }
        }
    }
    0
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
