// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for people in a message.

use std::collections::HashMap;

use crate::demangle::demangle;
use crate::message::ProfileMessage;

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
