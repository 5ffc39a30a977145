// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which language a function is of, as far as a profile tells.

use std::collections::HashMap;

use crate::message::{Function, Location, ProfileMessage};
use crate::stacks::{is_named, Stacks};

/// What a function was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Language {
    /// C, assembly, and native functions of which nothing else is known.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// A language that an interpreter runs, as Python or PHP.
    Interpreted,
    /// Code that was generated while the program ran.
    Generated,
    /// No function with a name: an address, a remark, a thread.
    Unknown,
}

impl Language {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Interpreted => "interpreted",
            Self::Generated => "generated",
            Self::Unknown => "unnamed",
        }
    }
}

/// The language of each name in a profile, and what the functions of each spent themselves, the largest first.
pub(crate) struct Languages {
    #[cfg_attr(not(feature = "flamegraph"), allow(dead_code))] // for its colours
    pub(crate) of_names: HashMap<String, Language>,
    pub(crate) spent: Vec<(Language, i64)>,
}

impl Languages {
    pub(crate) fn new(profile: &ProfileMessage) -> Self {
        let stacks = Stacks::new(profile);
        let value = stacks.default_value();
        let (mut of_names, mut spent) = (HashMap::new(), HashMap::new());
        for sample in &profile.sample {
            let mut leaf = None;
            stacks.each_line(sample, |name, location, function| {
                let language =
                    *of_names.entry(name.into_owned()).or_insert_with_key(|name| of(&stacks, name, location, function));
                leaf.get_or_insert(language);
            });
            let sum: &mut i64 = spent.entry(leaf.unwrap_or(Language::Unknown)).or_default();
            *sum = sum.saturating_add(sample.value.get(value).copied().unwrap_or(0));
        }
        let mut spent: Vec<_> = spent.into_iter().filter(|&(_, sum)| sum > 0).collect();
        spent.sort_by_key(|&(language, sum)| (std::cmp::Reverse(sum), language));
        Self { of_names, spent }
    }
}

pub(crate) fn of(
    stacks: &Stacks<'_>,
    name: &str,
    location: Option<&Location>,
    function: Option<&Function>,
) -> Language {
    if !is_named(name) {
        return Language::Unknown;
    }
    let text = |index: fn(&Function) -> i64| function.map_or("", |function| stacks.text(index(function)));
    let (system_name, file) = (text(|f| f.system_name), text(|f| f.filename));
    // The core's form for frames of interpreters: "python:main".
    if system_name.len() > name.len() && system_name.strip_suffix(name).is_some_and(|rest| rest.ends_with(':')) {
        return Language::Interpreted;
    }
    let mapping = location.map_or("", |location| stacks.mapping_file(location));
    if mapping.starts_with("[generated") || mapping == "//anon" {
        return Language::Generated;
    }
    // Also where the symbol has lost its hash.
    let of_file = of_file(file).filter(|language| !system_name.starts_with("_Z") || *language == Language::Rust);
    of_rust_symbol(system_name)
        .or(of_file)
        .or_else(|| system_name.starts_with("_Z").then_some(Language::Cpp))
        .unwrap_or_else(|| of_text(name))
}

/// By the way in which it is mangled: the new one, or that of C++ with a hash at the end, to which LLVM may add a name of its own.
fn of_rust_symbol(symbol: &str) -> Option<Language> {
    let own = symbol.find(".llvm.").map_or(symbol, |at| &symbol[..at]);
    let hash = own.strip_suffix('E').and_then(|text| text.get(text.len().checked_sub(19)?..));
    let legacy = hash.and_then(|text| text.strip_prefix("17h"));
    let is_legacy = own.starts_with("_Z") && legacy.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    (is_legacy || own.starts_with("_R")).then_some(Language::Rust)
}

fn of_file(file: &str) -> Option<Language> {
    match file.rsplit_once('.')?.1 {
        "go" => Some(Language::Go),
        "rs" => Some(Language::Rust),
        "cc" | "cpp" | "cxx" | "C" | "hpp" | "hh" | "hxx" | "tcc" => Some(Language::Cpp),
        "c" | "S" => Some(Language::C),
        "py" | "php" => Some(Language::Interpreted),
        _ => None,
    }
}

/// What compilers of C add to a name.
const CLONES: [&str; 7] = ["part", "constprop", "isra", "cold", "llvm", "lto_priv", "localalias"];

fn of_text(name: &str) -> Language {
    if name.contains("::") {
        return of_path(name);
    }
    // Go's names have their package: "runtime.mallocgc", "example.com/shop.(*Cart).Add".
    match name.rsplit('/').next().and_then(|last| last.split_once('.')) {
        Some((_, rest)) if !CLONES.contains(&rest.split('.').next().unwrap_or(rest)) && !rest.contains("so") => {
            Language::Go
        }
        _ => Language::C,
    }
}

/// Modules of Rust's `std`. C++ has a namespace of that name, and readers that take away parameters.
const RUST_STD: [&str; 20] = [
    "alloc",
    "backtrace",
    "collections",
    "env",
    "ffi",
    "fs",
    "hash",
    "io",
    "net",
    "os",
    "panic",
    "panicking",
    "path",
    "process",
    "rt",
    "sync",
    "sys",
    "sys_common",
    "thread",
    "time",
];

/// A name with "::" that is demangled already, as folded stacks have it. Functions of C++ have their parameters behind their names.
fn of_path(name: &str) -> Language {
    if [" as ", "::{", "<impl ", "dyn ", "::<"].iter().any(|part| name.contains(part)) && !name.contains("::{lambda") {
        return Language::Rust;
    }
    if let Some((module, rest)) = name.strip_prefix("std::").map(|rest| rest.split_once("::").unwrap_or((rest, ""))) {
        let is_rust = RUST_STD.contains(&module) && !rest.starts_with('_') && !has_parameters(name);
        return if is_rust { Language::Rust } else { Language::Cpp };
    }
    if has_parameters(name) {
        Language::Cpp
    } else {
        Language::Rust
    }
}

/// Parentheses outside of a type's own parameters. An operator of C++ may be one of the brackets.
fn has_parameters(name: &str) -> bool {
    let mut depth = 0;
    let mut outside = |c: char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        c == '(' && depth <= 0
    };
    is_operator(name) || name.contains("(anonymous namespace)") || name.chars().any(&mut outside)
}

/// `a::operator<<`, and not `a::operators::run`.
fn is_operator(name: &str) -> bool {
    let ends = name.split("::").filter_map(|part| part.strip_prefix("operator"));
    ends.into_iter().any(|end| !end.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Line, Mapping, Sample, ValueType};

    #[test]
    fn a_symbol_a_file_or_the_text_tells() {
        for rust in [
            "_ZN4core3fmt5write17h0123456789abcdefE",
            "_ZN4core3fmt5write17h0123456789abcdefE.llvm.1234567890",
            "_ZN53_$LT$core..fmt..Error$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
            "_RNvC4shop4main",
        ] {
            assert_eq!(of_rust_symbol(rust), Some(Language::Rust), "{rust}");
        }
        for other in ["_ZNSt6vectorIiE9push_backEv", "_ZNSt6vectorIiE9push_backEv.llvm.12", "main", "E", "é17hE"] {
            assert_eq!(of_rust_symbol(other), None, "{other}");
        }
        assert_eq!(
            (of_file("/src/a.go"), of_file("lib.rs"), of_file("x.cc"), of_file("none")),
            (Some(Language::Go), Some(Language::Rust), Some(Language::Cpp), None)
        );
        for (name, language) in [
            ("main.work", Language::Go),
            ("example.com/shop.(*Cart).Add", Language::Go),
            ("memcpy", Language::C),
            ("sort.part.0", Language::C),
            ("std::sort<int>", Language::Cpp),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", Language::Cpp),
            ("std::thread::_State_impl<f>::_M_run()", Language::Cpp),
            ("shop::operator<<(std::ostream&, shop::Cart const&)", Language::Cpp),
            ("shop::(anonymous namespace)::add", Language::Cpp),
            ("shop::run()::{lambda(int)#1}::operator()(int) const", Language::Cpp),
            ("<T as shop::Cart>::add", Language::Rust),
            ("core::fmt::write", Language::Rust),
            ("wasmparser::validator::operators::OperatorValidator<R>::operator_at", Language::Rust),
            ("std::rt::lang_start", Language::Rust),
            ("core::slice::<impl [T]>::sort", Language::Rust),
            ("core::ptr::drop_in_place<alloc::boxed::Box<dyn core::ops::function::Fn()>>", Language::Rust),
            ("cranelift_codegen::isa::x64::lower::isle::generated_code::constructor_lower", Language::Rust),
            ("wasmtime::runtime::func::Func::call_impl_do_call::{{closure}}", Language::Rust),
        ] {
            assert_eq!(of_text(name), language, "{name}");
        }
    }

    /// The ends of the stacks of `make demo`: Go, and wasmtime, which is of Rust and C. It has no C++.
    #[test]
    fn go_and_rust_are_not_taken_for_cpp() {
        let profile = crate::Profile::from_folded(include_str!("../tests/demo.folded")).unwrap();
        let languages = Languages::new(&profile.message);
        let spent =
            |wanted| languages.spent.iter().find(|(language, _)| *language == wanted).map_or(0, |&(_, sum)| sum);
        let total: i64 = languages.spent.iter().map(|&(_, sum)| sum).sum();
        assert!(spent(Language::Cpp) * 100 < total, "{:?}", languages.spent);
        assert!(spent(Language::Rust) * 2 > total && spent(Language::Go) > 0, "{:?}", languages.spent);
        let cpp: Vec<_> = languages.of_names.iter().filter(|(_, &language)| language == Language::Cpp).collect();
        assert!(cpp.is_empty(), "{cpp:?}");
    }

    #[test]
    fn what_each_language_spent_is_told_by_the_leaf() {
        let strings = ["", "cpu", "nanoseconds", "work", "python:work", "memcpy", "[generated: V8]", "lazy", "0x12"];
        let place = |id, mapping_id| Location {
            id,
            mapping_id,
            line: vec![Line { function_id: id, ..Line::default() }],
            ..Location::default()
        };
        let sample = |ids: &[u64], value| Sample { location_id: ids.to_vec(), value: vec![value], ..Sample::default() };
        let message = ProfileMessage {
            string_table: strings.map(String::from).to_vec(),
            sample_type: vec![ValueType { r#type: 1, unit: 2 }],
            mapping: vec![Mapping { id: 1, filename: 6, ..Mapping::default() }],
            function: vec![
                Function { id: 1, name: 3, system_name: 4, ..Function::default() },
                Function { id: 2, name: 5, system_name: 5, ..Function::default() },
                Function { id: 3, name: 7, system_name: 7, ..Function::default() },
                Function { id: 4, name: 8, system_name: 8, ..Function::default() },
            ],
            location: vec![place(1, 0), place(2, 0), place(3, 1), place(4, 0)],
            sample: vec![sample(&[1, 2], 5), sample(&[2, 1], 7), sample(&[3, 2], 1), sample(&[4], 2)],
            ..ProfileMessage::default()
        };
        let languages = Languages::new(&message);
        assert_eq!(
            languages.spent,
            [(Language::C, 7), (Language::Interpreted, 5), (Language::Unknown, 2), (Language::Generated, 1)]
        );
        assert_eq!(languages.of_names["work"], Language::Interpreted);
    }
}
