// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels that a whole profile carries.

use crate::error::{Error, Result};
use crate::message::{Label, ProfileMessage, Sample};

/// The core's rule, `[a-zA-Z_][a-zA-Z0-9_./-]*` and none of the threads' own: what OpenTelemetry and users of pprof write.
fn is_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let others = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte));
    first && others && !matches!(key, "thread" | "thread_id")
}

/// What is wrong with a label.
pub(crate) fn check(key: &str, value: &str) -> Result<()> {
    if !is_key(key) {
        let rule =
            "give letters, digits and any of `_.-/`, a letter or `_` first, and neither `thread` nor `thread_id`";
        return Err(Error::Options(format!("label {key:?}: {rule}")));
    }
    match value.contains('\0') {
        true => Err(Error::Options(format!("label {key:?}: the value {value:?} has a NUL in it"))),
        false => Ok(()),
    }
}

/// Gives every sample these labels, but those of a key that a thread has given it: servers want each key once.
pub(crate) fn add(message: &mut ProfileMessage, labels: &[(String, String)]) {
    for (key, value) in labels {
        let label = Label { key: message.intern(key), str: message.intern(value), ..Label::default() };
        let without = |sample: &&mut Sample| !sample.label.iter().any(|known| known.key == label.key);
        message.sample.iter_mut().filter(without).for_each(|sample| sample.label.push(label));
    }
}

#[cfg(test)]
mod tests {
    use super::is_key;

    #[test]
    fn keys_are_those_of_opentelemetry_and_pprof() {
        assert!(["service", "_x", "A9", "service.name", "db-name", "app.io/part"].into_iter().all(is_key));
        assert!(!["", "9a", ".a", "-a", "a b", "a=b", "é", "thread", "thread_id"].into_iter().any(is_key));
    }
}
