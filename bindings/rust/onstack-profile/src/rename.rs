// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other names for the labels of samples, for a server that takes only some.

use std::collections::{BTreeSet, HashMap};
use std::mem;

use crate::message::{ProfileMessage, Sample};

/// Names labels as `name` says, and says whether one changed. Two that a sample has never become one: the second gets a `_`
/// behind it, and so on.
pub(crate) fn labels(message: &mut ProfileMessage, name: &dyn Fn(&str) -> String) -> bool {
    let keys: BTreeSet<i64> = message.sample.iter().flat_map(|sample| &sample.label).map(|label| label.key).collect();
    let names = keys.into_iter().map(|key| (key, name(message.text(key))));
    let renamed: HashMap<i64, String> = names.filter(|(key, new)| new != message.text(*key)).collect();
    if renamed.is_empty() {
        return false;
    }
    let mut interned = HashMap::new();
    let mut samples = mem::take(&mut message.sample);
    for sample in &mut samples {
        for (key, new) in names_of(message, sample, &renamed) {
            let index = *interned.entry(new).or_insert_with_key(|new| message.intern(new));
            sample.label.iter_mut().filter(|label| label.key == key).for_each(|label| label.key = index);
        }
    }
    message.sample = samples;
    true
}

/// The sample's keys that change, and what each becomes: the same each time, whatever the order of the strings.
fn names_of(message: &ProfileMessage, sample: &Sample, renamed: &HashMap<i64, String>) -> Vec<(i64, String)> {
    let keys: BTreeSet<(&str, i64)> = sample.label.iter().map(|label| (message.text(label.key), label.key)).collect();
    let (change, stay): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(_, key)| renamed.contains_key(key));
    let mut taken: BTreeSet<String> = stay.into_iter().map(|(text, _)| text.to_owned()).collect();
    let unlike_others = |(_, key): (&str, i64)| {
        let mut new = renamed[&key].clone();
        while !taken.insert(new.clone()) {
            new.push('_');
        }
        (key, new)
    };
    change.into_iter().map(unlike_others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Label;

    fn sample(message: &mut ProfileMessage, labels: &[(&str, &str)]) {
        let label = |&(key, value): &(&str, &str)| Label {
            key: message.intern(key),
            str: message.intern(value),
            ..Label::default()
        };
        let label = labels.iter().map(label).collect();
        message.sample.push(Sample { label, ..Sample::default() });
    }

    fn keys(message: &ProfileMessage, index: usize) -> Vec<(&str, &str)> {
        let labels = message.sample[index].label.iter();
        let mut keys: Vec<_> = labels.map(|label| (message.text(label.key), message.text(label.str))).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn labels_that_become_the_same_stay_apart() {
        let mut message = ProfileMessage { string_table: vec![String::new()], ..ProfileMessage::default() };
        sample(&mut message, &[("a.b", "2"), ("a-b", "1"), ("a_b", "3"), ("good", "4")]);
        sample(&mut message, &[("a.b", "5")]);
        sample(&mut message, &[("good", "6")]);
        let name = |key: &str| key.replace(['.', '-'], "_");
        assert!(labels(&mut message, &name));
        assert_eq!(keys(&message, 0), [("a_b", "3"), ("a_b_", "1"), ("a_b__", "2"), ("good", "4")]);
        assert_eq!((keys(&message, 1), keys(&message, 2)), (vec![("a_b", "5")], vec![("good", "6")]));
        let before = message.clone();
        assert!(!labels(&mut message, &name));
        assert_eq!(message, before);
    }
}
