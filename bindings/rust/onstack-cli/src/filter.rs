// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a profile, by labels and by the functions in its stacks; and other stacks for its samples.

use clap::Args;
use onstack_profile::Profile;
use regex_lite::Regex;

/// Which samples are shown: those that all of these keep.
#[derive(Args)]
pub struct Filter {
    /// Only samples with this value of a label, as request=42 or thread=worker; `KEY=`: only those without that label. Given
    /// more than once: any of a key's values, and all keys
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    filter: Vec<(String, String)>,
    /// Only stacks with a function whose name has a match of this regular expression
    #[arg(long, value_name = "REGEX", value_parser = Regex::new)]
    focus: Option<Regex>,
    /// No stacks with a function whose name has a match of this regular expression
    #[arg(long, value_name = "REGEX", value_parser = Regex::new)]
    ignore: Option<Regex>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is expected")?;
    if key.is_empty() {
        return Err("KEY=VALUE is expected".into());
    }
    Ok((key.into(), value.into()))
}

impl Filter {
    /// A text where nothing is left, or a key that no sample has: an empty table would not tell a wrong word from no work.
    pub fn apply(&self, profile: &mut Profile) -> Result<(), String> {
        for (key, _) in &self.filter {
            check_key(profile, key)?;
        }
        for (key, _) in &self.filter {
            let values = || self.filter.iter().filter(|(other, _)| other == key).map(|(_, value)| value.as_str());
            profile.retain_label(key, |found| values().any(|value| value == found.unwrap_or_default()));
        }
        if let Some(focus) = &self.focus {
            profile.retain_functions(|name| focus.is_match(name));
        }
        if let Some(ignore) = &self.ignore {
            profile.drop_functions(|name| ignore.is_match(name));
        }
        let filters = !self.filter.is_empty() || self.focus.is_some() || self.ignore.is_some();
        if filters && profile.summary().stacks == 0 {
            return Err("no sample is left by these filters".into());
        }
        Ok(())
    }
}

/// A key that no sample has is a mistake, but in a profile without samples.
pub fn check_key(profile: &Profile, key: &str) -> Result<(), String> {
    let keys = profile.label_keys();
    if keys.contains(&key) || profile.summary().stacks == 0 {
        return Ok(());
    }
    let known = if keys.is_empty() { "none".into() } else { keys.join(", ") };
    Err(format!("no sample has a label {key}; the labels there are: {known}"))
}

/// Other stacks for the samples: with labels as frames, and without what idle threads are in.
#[derive(Args)]
pub struct Shape {
    /// Begin stacks with the values of these labels, as `on,holder`
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    tagroot: Vec<String>,
    /// End stacks with the values of these labels
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    tagleaf: Vec<String>,
    /// Make one frame, as `[idle: Go]`, of the stacks of threads that wait for work in a runtime: Go, tokio, rayon, node
    #[arg(long)]
    fold_idle: bool,
}

impl Shape {
    /// A text about a key that no sample has.
    pub fn apply(&self, profile: &mut Profile) -> Result<(), String> {
        for key in self.tagroot.iter().chain(&self.tagleaf) {
            check_key(profile, key)?;
        }
        if self.fold_idle {
            profile.fold_idle();
        }
        profile.labels_as_leaves(&self.tagleaf.iter().map(String::as_str).collect::<Vec<_>>());
        profile.labels_as_roots(&self.tagroot.iter().map(String::as_str).collect::<Vec<_>>());
        Ok(())
    }
}
