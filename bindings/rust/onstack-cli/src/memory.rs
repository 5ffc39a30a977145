// SPDX-License-Identifier: MIT OR Apache-2.0
//! `memory`: what the resident size of a process is made of, and what grew from one heap profile to the next.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use onstack_profile::Plain;
use onstack_profile::{Profile, Top};

use crate::failure::Failure;
use crate::{input, output, unit};

/// What a comment with a part of the memory begins with.
const PART: &str = "onstack.memory bytes=";
const IN_USE: &str = "inuse_space";

#[derive(Args)]
#[command(
    after_help = "With several profiles of one process, the oldest first, the functions follow whose memory in use has \
grown in every step: those that leak are among them."
)]
pub struct Arguments {
    /// Heap profiles: of `onstack record --heap`, of a Go service's /debug/pprof/heap under onstackhttp, of ONSTACK_HEAP=1
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    /// How many functions that grew are shown
    #[arg(short = 'n', long, value_name = "FUNCTIONS", default_value_t = 20)]
    count: usize,
}

/// The parts, in the order of the profile; the first is the whole.
type Account = Vec<(String, i64)>;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut accounts = Vec::new();
    let mut tops = Vec::new();
    let mut unseen = BTreeSet::new();
    for path in &arguments.profiles {
        let mut profile = input::read(path)?;
        let account = account(&profile);
        if account.is_empty() {
            let what = "says nothing of the process's memory; heap profiles of onstack do (onstack record --heap)";
            return Err(Failure::new(path, what));
        }
        accounts.push(account);
        unseen.extend(profile.summary().unseen);
        if arguments.profiles.len() > 1 {
            profile.show(IN_USE).map_err(|error| Failure::new(path, error))?;
            tops.push(profile.top());
        }
    }
    let mut text = table(&accounts);
    if arguments.profiles.len() > 1 {
        text += &growth(&tops, arguments.count);
    }
    unseen.iter().for_each(|allocator| text += &format!("Note: {allocator}\n"));
    output::write(None, text.as_bytes())
}

fn account(profile: &Profile) -> Account {
    let part = |line: &str| {
        let (bytes, what) = line.strip_prefix(PART)?.split_once(" of=")?;
        Some((what.to_owned(), bytes.parse().ok()?))
    };
    profile.comments().filter_map(part).collect()
}

/// A line for each part that some profile has, a column for each profile; of a single one shares too.
fn table(accounts: &[Account]) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for (what, _) in accounts.iter().flatten() {
        if !parts.contains(&what.as_str()) {
            parts.push(what);
        }
    }
    // What is left comes last, and not before what only a later profile has.
    parts.sort_by_key(|what| *what == "unexplained");
    let mut text = String::new();
    for what in parts {
        let value = |account: &Account| account.iter().find(|(name, _)| name == what).map_or(0, |(_, bytes)| *bytes);
        for account in accounts {
            let _ = write!(text, "{:>12}", unit::amount(value(account), "bytes"));
        }
        if let [account] = accounts {
            let whole = account[0].1.max(1);
            let _ = write!(text, " {:>6.2}%", 100.0 * value(account) as f64 / whole as f64);
        }
        let _ = writeln!(text, "  {}", Plain(what));
    }
    text
}

/// Functions that allocated what is in use, and had more of it in each profile than in the one before.
fn growth(tops: &[Top], count: usize) -> String {
    let steps = tops.len() - 1;
    let values: Vec<HashMap<&str, i64>> =
        tops.iter().map(|top| top.entries.iter().map(|entry| (entry.name.as_str(), entry.flat)).collect()).collect();
    let of = |at: usize, name: &str| values[at].get(name).copied().unwrap_or(0);
    let mut grown: Vec<(i64, &str)> = values[steps]
        .keys()
        .filter(|name| (0..steps).all(|at| of(at, name) < of(at + 1, name)))
        .map(|name| (of(steps, name).saturating_sub(of(0, name)), *name))
        .collect();
    grown.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let times = if steps == 1 { "the one step".to_owned() } else { format!("each of {steps} steps") };
    if grown.is_empty() {
        return format!("\nno function's memory in use grew in {times}\n");
    }
    let mut text = format!("\ngrew in {times}, by memory in use\n");
    for (difference, name) in grown.iter().take(count) {
        let (now, more) = (unit::amount(of(steps, name), "bytes"), unit::signed(*difference, "bytes"));
        let _ = writeln!(text, "{more:>12} to {now:>12}  {}", Plain(name));
    }
    if let Some(hidden) = grown.len().checked_sub(count).filter(|hidden| *hidden > 0) {
        let _ = writeln!(text, "{hidden} more not shown");
    }
    text
}
