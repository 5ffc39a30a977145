// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of functions: what each spent itself, and with what it called.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::message::ProfileMessage;
use crate::plain::Amount;
use crate::plain::Plain;
use crate::stacks::{is_named, Stacks};
use crate::summary::{unseen_of, UnseenAllocator};

/// A function's part of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopEntry {
    /// The function, or what is known where no name is: a file and offset, an address, a remark in brackets.
    pub name: String,
    /// Spent in the function itself.
    pub flat: i64,
    /// Spent in it and in what it called; a recursive function counts once a stack.
    pub cum: i64,
}

/// The functions of a profile, the most expensive first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Top {
    /// One for each function.
    pub entries: Vec<TopEntry>,
    /// Sum over the profile.
    pub total: i64,
    /// Sum over the stacks whose leaf is a function with a name.
    pub named: i64,
    /// Sums over the stacks that have a frame without a name in a file of code, by its path, the largest first.
    pub unnamed: Vec<(String, i64)>,
    /// Allocators whose blocks the profile lacks, where it says so: heap profiles of the preload do.
    pub unseen: Vec<UnseenAllocator>,
    /// What the numbers mean, as `cpu`.
    pub value_type: String,
    /// Their unit, as `nanoseconds`.
    pub unit: String,
}

impl Top {
    pub(crate) fn new(profile: &ProfileMessage) -> Self {
        let stacks = Stacks::new(profile);
        let index = stacks.default_value();
        let (value_type, unit) = stacks.value_names(index);
        let mut top = Self {
            entries: Vec::new(),
            total: 0,
            named: 0,
            unnamed: Vec::new(),
            unseen: unseen_of(profile.comments()),
            value_type: value_type.into(),
            unit: unit.into(),
        };

        let mut sums: HashMap<String, (i64, i64)> = HashMap::new();
        let mut unnamed: HashMap<&str, i64> = HashMap::new();
        for sample in &profile.sample {
            let value = sample.value.get(index).copied().unwrap_or(0);
            top.total = top.total.saturating_add(value);
            let names = stacks.names(sample);
            for file in stacks.files_without_names(sample) {
                let sum = unnamed.entry(file).or_default();
                *sum = sum.saturating_add(value);
            }
            let Some(leaf) = names.first() else { continue };
            if is_named(leaf) {
                top.named = top.named.saturating_add(value);
            }
            let flat = &mut sums.entry(leaf.clone()).or_default().0;
            *flat = flat.saturating_add(value);
            for name in names.into_iter().collect::<HashSet<_>>() {
                let cum = &mut sums.entry(name).or_default().1;
                *cum = cum.saturating_add(value);
            }
        }
        top.unnamed = unnamed.into_iter().map(|(file, sum)| (file.to_owned(), sum)).collect();
        top.unnamed.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        top.entries = sums.into_iter().map(|(name, (flat, cum))| TopEntry { name, flat, cum }).collect();
        top.entries.sort_by(|a, b| (b.flat, b.cum).cmp(&(a.flat, a.cum)).then_with(|| a.name.cmp(&b.name)));
        top
    }

    /// The function of that name.
    pub fn get(&self, name: &str) -> Option<&TopEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Share of the whole, 0 to 1, whose leaf is a function with a name.
    pub fn named_share(&self) -> f64 {
        self.share(self.named)
    }

    /// A value's share of the whole, 0 to 1; 0 for an empty profile.
    pub fn share(&self, value: i64) -> f64 {
        self.amounts().share(value)
    }

    fn amount(&self, value: i64) -> String {
        self.amounts().text(value)
    }

    fn amounts(&self) -> Amount<'_> {
        Amount { unit: &self.unit, total: self.total }
    }
}

impl fmt::Display for Top {
    /// The alternate form `{:#}` shows the first 20 lines; a precision, as `{:.5}`, that many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = f.precision().unwrap_or(if f.alternate() { 20 } else { self.entries.len() });
        writeln!(f, "Type: {}", Plain(&self.value_type))?;
        writeln!(f, "Total: {}; {:.2}% in named functions", self.amount(self.total), 100.0 * self.named_share())?;
        writeln!(f, "{:>10} {:>6}  {:>6} {:>10} {:>6}  name", "flat", "flat%", "sum%", "cum", "cum%")?;
        let mut sum = 0i64;
        for entry in self.entries.iter().take(count) {
            sum = sum.saturating_add(entry.flat);
            writeln!(
                f,
                "{:>10} {:>5.2}% {:>6.2}% {:>10} {:>5.2}%  {}",
                self.amount(entry.flat),
                100.0 * self.share(entry.flat),
                100.0 * self.share(sum),
                self.amount(entry.cum),
                100.0 * self.share(entry.cum),
                Plain(&entry.name)
            )?;
        }
        if let Some(hidden) = self.entries.len().checked_sub(count).filter(|hidden| *hidden > 0) {
            writeln!(f, "{hidden} more not shown")?;
        }
        self.unseen.iter().try_for_each(|allocator| writeln!(f, "Note: {allocator}"))?;
        // Less changes no picture.
        let many = |sum: i64| sum > 0 && sum.saturating_mul(50) >= self.total;
        self.unnamed.iter().filter(|(_, sum)| many(*sum)).try_for_each(|(file, sum)| {
            writeln!(
                f,
                "No names in {file} ({:.2}%), which seems to be stripped: install the debug symbols of its package (Debian: \
                 find-dbgsym-packages {file} names it) or keep its symbol table, and record again",
                100.0 * self.share(*sum),
                file = Plain(file)
            )
        })
    }
}
