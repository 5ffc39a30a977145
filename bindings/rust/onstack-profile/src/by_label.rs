// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile by the labels of its samples: sums for each value of one, and parts of a profile.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::message::{Label, ProfileMessage};
use crate::plain::Amount;
use crate::plain::Plain;
use crate::profile::Profile;
use crate::stacks::Stacks;

/// What each value of a label spent, the most expensive first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByLabel {
    /// The label's key; several, with spaces between them.
    pub key: String,
    /// Value and sum; `None` stands for the samples without the label. A sample with two values of the key counts with both.
    pub values: Vec<(Option<String>, i64)>,
    /// Sum over the profile.
    pub total: i64,
    /// What the numbers mean, as `cpu`.
    pub value_type: String,
    /// Their unit, as `nanoseconds`.
    pub unit: String,
}

impl Profile {
    /// Sums by the values of the label `key`, a text or a number, as a request's id. A number has its unit behind it.
    pub fn by_label(&self, key: &str) -> ByLabel {
        self.by_labels(&[key])
    }

    /// Sums by what samples have of several labels together, as `wait`, `on` and `holder`, with two spaces between the values.
    /// Of a label that a sample lacks nothing is there.
    pub fn by_labels(&self, keys: &[&str]) -> ByLabel {
        let stacks = Stacks::new(&self.message);
        let index = stacks.default_value();
        let (value_type, unit) = stacks.value_names(index);
        let mut sums: HashMap<Option<String>, i64> = HashMap::new();
        let mut total = 0i64;
        for sample in &self.message.sample {
            let value = sample.value.get(index).copied().unwrap_or(0);
            total = total.saturating_add(value);
            for text in combined(&self.message, &sample.label, keys) {
                let sum = sums.entry(text).or_default();
                *sum = sum.saturating_add(value);
            }
        }
        let mut values: Vec<_> = sums.into_iter().collect();
        values.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        ByLabel { key: keys.join(" "), values, total, value_type: value_type.into(), unit: unit.into() }
    }

    /// The keys of the labels that samples have, sorted.
    pub fn label_keys(&self) -> Vec<&str> {
        let labels = self.message.sample.iter().flat_map(|sample| &sample.label);
        let keys: BTreeSet<_> = labels.map(|label| self.message.text(label.key)).collect();
        keys.into_iter().collect()
    }

    /// Keeps the samples for which `wanted` is true of one of the values that they have of the label `key`, as
    /// [`Profile::by_label`] shows them, or of `None` where they have none. What the profile says beside its samples stays.
    pub fn retain_label(&mut self, key: &str, wanted: impl Fn(Option<&str>) -> bool) {
        let message = &self.message;
        let keep: Vec<bool> = (message.sample.iter())
            .map(|sample| match texts(message, &sample.label, key) {
                texts if texts.is_empty() => wanted(None),
                texts => texts.iter().any(|text| wanted(Some(text))),
            })
            .collect();
        self.retain(&keep);
    }

    /// Keeps the samples for which `wanted` is true of one of the functions in their stacks, inlined ones included.
    pub fn retain_functions(&mut self, wanted: impl Fn(&str) -> bool) {
        let keep = self.with_functions(wanted);
        self.retain(&keep);
    }

    /// Leaves out the samples for which `unwanted` is true of one of the functions in their stacks.
    pub fn drop_functions(&mut self, unwanted: impl Fn(&str) -> bool) {
        let keep: Vec<bool> = self.with_functions(unwanted).into_iter().map(|drop| !drop).collect();
        self.retain(&keep);
    }

    /// For each sample whether `wanted`, which is asked once for each name, is true of a function in its stack.
    fn with_functions(&self, wanted: impl Fn(&str) -> bool) -> Vec<bool> {
        let stacks = Stacks::new(&self.message);
        let mut known: HashMap<String, bool> = HashMap::new();
        let mut is_wanted = |name: String| match known.get(&name) {
            Some(&answer) => answer,
            None => {
                let answer = wanted(&name);
                known.insert(name, answer);
                answer
            }
        };
        let samples = self.message.sample.iter();
        samples.map(|sample| stacks.names(sample).into_iter().any(&mut is_wanted)).collect()
    }

    fn retain(&mut self, keep: &[bool]) {
        let mut keep = keep.iter().copied();
        self.message.sample.retain(|_| keep.next().unwrap_or(false));
    }
}

/// Of one sample. A sample of a file can have any number of values for each of several keys; the combinations beyond this are left out.
const MOST_COMBINATIONS: usize = 256;

/// What a sample has of the keys, each value of one with each of the others; `None`: it has none of them.
fn combined(message: &ProfileMessage, labels: &[Label], keys: &[&str]) -> BTreeSet<Option<String>> {
    let mut all = vec![None];
    for key in keys {
        let texts = texts(message, labels, key);
        if texts.is_empty() {
            continue;
        }
        let joined = |before: &Option<String>, text: &String| match before {
            Some(before) => Some(format!("{before}  {text}")),
            None => Some(text.clone()),
        };
        let pairs = all.iter().flat_map(|before| texts.iter().map(move |text| joined(before, text)));
        all = pairs.take(MOST_COMBINATIONS).collect();
    }
    all.into_iter().collect()
}

/// The values that a sample has of the key.
pub(crate) fn texts(message: &ProfileMessage, labels: &[Label], key: &str) -> Vec<String> {
    let labels = labels.iter().filter(|label| message.text(label.key) == key);
    labels.map(|label| text(message, label).into_owned()).collect()
}

/// A label's value for people.
pub(crate) fn text<'a>(message: &'a ProfileMessage, label: &Label) -> Cow<'a, str> {
    match (label.str, message.text(label.num_unit)) {
        (0, unit) => format!("{}{unit}", label.num).into(),
        (text, _) => message.text(text).into(),
    }
}

impl fmt::Display for ByLabel {
    /// A precision, as `{:.5}`, shows that many lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = f.precision().unwrap_or(self.values.len());
        let amount = Amount { unit: &self.unit, total: self.total };
        writeln!(f, "Type: {}", Plain(&self.value_type))?;
        writeln!(f, "Total: {}", amount.text(self.total))?;
        writeln!(f, "{:>10} {:>6}  {}", "sum", "sum%", Plain(&self.key))?;
        for (text, value) in self.values.iter().take(count) {
            write!(f, "{:>10} {:>5.2}%  ", amount.text(*value), 100.0 * amount.share(*value))?;
            match text {
                Some(text) => writeln!(f, "{}", Plain(text))?,
                None => writeln!(f, "[none]")?,
            }
        }
        if let Some(hidden) = self.values.len().checked_sub(count).filter(|hidden| *hidden > 0) {
            writeln!(f, "{hidden} more not shown")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Sample, ValueType};

    /// Values 1, 2, 4, 8 of requests a, b, none, and 7 bytes; the stacks have no names.
    fn profile() -> Profile {
        let strings = ["", "cpu", "count", "request", "a", "b", "bytes"];
        let label = |str, num, num_unit| vec![Label { key: 3, str, num, num_unit }];
        let labels = [label(4, 0, 0), label(5, 0, 0), vec![], label(0, 7, 6)];
        let sample = |(index, label)| Sample { value: vec![1i64 << index], label, ..Sample::default() };
        Profile {
            message: ProfileMessage {
                sample_type: vec![ValueType { r#type: 1, unit: 2 }],
                string_table: strings.map(String::from).to_vec(),
                sample: labels.into_iter().enumerate().map(sample).collect(),
                ..ProfileMessage::default()
            },
        }
    }

    #[test]
    fn each_value_has_its_sum() {
        let sums = profile().by_label("request");
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(sums.values, [(some("7bytes"), 8), (None, 4), (some("b"), 2), (some("a"), 1)]);
        assert_eq!((sums.total, sums.value_type.as_str()), (15, "cpu"));
        let text = format!("{sums:.2}");
        assert!(text.contains("         8 53.33%  7bytes\n") && text.contains("[none]\n2 more not shown\n"), "{text}");
        assert_eq!(profile().by_label("other").values, [(None, 15)]);
        assert_eq!(profile().label_keys(), ["request"]);
    }

    #[test]
    fn several_labels_are_one_line() {
        let mut both = profile();
        both.message.sample[1].label.push(Label { key: 2, str: 4, num: 0, num_unit: 0 });
        let sums = both.by_labels(&["request", "count"]);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(sums.values, [(some("7bytes"), 8), (None, 4), (some("b  a"), 2), (some("a"), 1)]);
        assert_eq!(sums.key, "request count");
    }

    #[test]
    fn combinations_of_one_sample_are_bounded() {
        let mut many = profile();
        let label = |key| (1..=100).map(move |num| Label { key, str: 0, num, num_unit: 0 });
        many.message.sample[0].label = [1, 2, 3, 4, 5, 6].into_iter().flat_map(label).collect();
        let sums = many.by_labels(&["cpu", "count", "request", "a", "b", "bytes"]);
        assert_eq!((sums.values.len(), sums.total), (MOST_COMBINATIONS + 3, 15));
    }

    #[test]
    fn parts_keep_what_is_wanted() {
        let left = |wanted: &dyn Fn(Option<&str>) -> bool| {
            let mut part = profile();
            part.retain_label("request", wanted);
            part.by_label("request").total
        };
        assert_eq!(left(&|value| value == Some("a")), 1);
        assert_eq!(left(&|value| value.is_none()), 4);
        assert_eq!(left(&|value| value != Some("a")), 14);
    }

    #[test]
    fn stacks_are_kept_by_any_of_their_functions() {
        let mut part = Profile::from_folded("main;f;g 1\nmain;g 2\nmain;h 4\n").unwrap();
        part.retain_functions(|name| name == "g");
        assert_eq!(part.top().total, 3);
        part.drop_functions(|name| name == "f");
        assert_eq!(part.top().total, 2);
    }
}
