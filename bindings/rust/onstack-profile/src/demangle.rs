// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for people out of names of symbol tables.

use std::collections::HashMap;
use std::fmt::Write;

use crate::message::ProfileMessage;

/// The longest name that is kept: a mangled name of a few hundred bytes can stand for megabytes.
const LONGEST: usize = 4096;

/// The Rust or C++ name that `symbol` stands for; nothing if it is neither.
pub fn demangle(symbol: &str) -> Option<String> {
    let mut out = Bounded(String::new());
    let result = if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        // The alternate form leaves out the hash.
        write!(out, "{name:#}")
    } else {
        demangle_cpp(symbol, &mut out)?
    };
    match result {
        Ok(()) if !out.0.is_empty() => Some(without_empty_members(out.0)),
        Err(_) if out.0.len() >= LONGEST => Some(out.0 + "..."),
        _ => None,
    }
}

/// cpp_demangle writes a separator before a parameter pack without members: `M<int, >`, `f(int, )`.
fn without_empty_members(mut name: String) -> String {
    for (with, without) in [(", >", ">"), (", )", ")"), ("<, ", "<"), ("(, ", "(")] {
        while name.contains(with) {
            name = name.replace(with, without);
        }
    }
    name
}

#[cfg(feature = "cpp")]
fn demangle_cpp(symbol: &str, out: &mut Bounded) -> Option<std::fmt::Result> {
    if !symbol.starts_with("_Z") {
        return None;
    }
    let name = cpp_demangle::Symbol::new(symbol).ok()?;
    Some(name.structured_demangle(out, &cpp_demangle::DemangleOptions::default()))
}

#[cfg(not(feature = "cpp"))]
fn demangle_cpp(_: &str, _: &mut Bounded) -> Option<std::fmt::Result> {
    None
}

/// Ends the printing when the name is long enough.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            if self.0.len() >= LONGEST {
                return Err(std::fmt::Error);
            }
            self.0.push(c);
        }
        Ok(())
    }
}

/// Gives names for people to functions that have only that of a symbol table.
pub(crate) fn demangle_functions(profile: &mut ProfileMessage) {
    let strings = &mut profile.string_table;
    let mut demangled: HashMap<i64, Option<i64>> = HashMap::new();
    for function in &mut profile.function {
        let source = if function.name == 0 { function.system_name } else { function.name };
        let name = *demangled.entry(source).or_insert_with(|| {
            let name = demangle(strings.get(usize::try_from(source).ok()?)?)?;
            strings.push(name);
            i64::try_from(strings.len() - 1).ok()
        });
        if let Some(name) = name {
            if function.system_name == 0 {
                function.system_name = source;
            }
            function.name = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn both_rust_manglings_and_cpp() {
        let cases = [
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            #[cfg(feature = "cpp")]
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"),
            // Parameter packs without a member: among types, and as the only one.
            #[cfg(feature = "cpp")]
            ("_ZN1MIiJEE1fEi", "M<int>::f(int)"),
            #[cfg(feature = "cpp")]
            ("_ZN1MIJEE1fEi", "M<>::f(int)"),
            #[cfg(feature = "cpp")]
            ("_ZN1MIJEiE1fEi", "M<int>::f(int)"),
            #[cfg(feature = "cpp")]
            ("_ZN1MIiJS_IJEEEE1fEi", "M<int, M<> >::f(int)"),
            #[cfg(feature = "cpp")]
            ("_Z1gIiJEEvT_DpT0_", "void g<int>(int)"),
        ];
        for (symbol, name) in cases {
            assert_eq!(demangle(symbol).as_deref(), Some(name));
        }
        for symbol in ["main", "memcpy", "runtime.mallocgc", "_Z", ""] {
            assert_eq!(demangle(symbol), None, "{symbol}");
        }
    }

    #[test]
    fn a_name_that_explodes_is_cut() {
        // Each substitution doubles what the one before stood for.
        let mut symbol = String::from("_Z1fI1aIiiE");
        for previous in
            ["S_", "S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_", "S9_", "SA_", "SB_", "SC_"]
        {
            symbol += &format!("1aI{previous}{previous}E");
        }
        symbol += "Evv";
        if let Some(name) = demangle(&symbol) {
            assert!(name.len() < 5000, "{}", name.len());
        }
    }
}
