// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels that a whole profile carries.

use crate::message::{Label, ProfileMessage, Sample};

/// Whether servers take it for the name of a label: they agree on `[a-zA-Z_][a-zA-Z0-9_]*`. The threads' are ours.
pub(crate) fn is_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !matches!(key, "thread" | "thread_id")
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
    fn keys_are_words() {
        assert!(["service", "_x", "A9", "service_name"].into_iter().all(is_key));
        assert!(!["", "9a", "service.name", "a-b", "é", "thread", "thread_id"].into_iter().any(is_key));
    }
}
