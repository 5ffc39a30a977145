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
    of_symbol(system_name).or_else(|| of_file(file)).unwrap_or_else(|| of_text(name))
}

/// By the way in which it is mangled.
fn of_symbol(symbol: &str) -> Option<Language> {
    let hash = symbol.strip_suffix('E').and_then(|text| text.get(text.len().checked_sub(19)?..));
    let legacy = hash.and_then(|text| text.strip_prefix("17h"));
    if symbol.starts_with("_R") || legacy.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit())) {
        return Some(Language::Rust);
    }
    symbol.starts_with("_Z").then_some(Language::Cpp)
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
        return if name.contains(" as ") || name.contains("::{") { Language::Rust } else { Language::Cpp };
    }
    // Go's names have their package: "runtime.mallocgc", "example.com/shop.(*Cart).Add".
    match name.rsplit('/').next().and_then(|last| last.split_once('.')) {
        Some((_, rest)) if !CLONES.contains(&rest.split('.').next().unwrap_or(rest)) && !rest.contains("so") => {
            Language::Go
        }
        _ => Language::C,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Line, Mapping, Sample, ValueType};

    #[test]
    fn a_symbol_a_file_or_the_text_tells() {
        assert_eq!(of_symbol("_ZN4core3fmt5write17h0123456789abcdefE"), Some(Language::Rust));
        assert_eq!(of_symbol("_RNvC4shop4main"), Some(Language::Rust));
        assert_eq!(of_symbol("_ZNSt6vectorIiE9push_backEv"), Some(Language::Cpp));
        assert_eq!((of_symbol("main"), of_symbol("E")), (None, None));
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
            ("<T as shop::Cart>::add", Language::Rust),
        ] {
            assert_eq!(of_text(name), language, "{name}");
        }
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
