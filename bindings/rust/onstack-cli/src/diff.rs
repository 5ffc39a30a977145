// SPDX-License-Identifier: MIT OR Apache-2.0
//! `diff`: what changed from one profile to another, function by function.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use onstack_profile::Plain;
use onstack_profile::{Profile, Top, TopEntry};

use crate::diff_graph;
use crate::failure::Failure;
use crate::input;
use crate::output;
use crate::unit;
use crate::verdict::{Side, Verdict};

#[derive(Args)]
pub struct Arguments {
    /// The profile from before: pprof (compressed or not) or folded stacks; `-` is the standard input
    before: PathBuf,
    /// The profile from after; its values must be of the same type and unit
    after: PathBuf,
    /// Which of the profiles' values is compared, as inuse_space or alloc_objects of heap profiles
    #[arg(long, value_name = "NAME")]
    sample_type: Option<String>,
    /// Scale the values from before to the total from after, for runs of different length or load
    #[arg(long)]
    normalize: bool,
    /// What is compared: flat, spent in a function itself, or cum, in what it called too
    #[arg(long, value_name = "VALUE", default_value = "flat", value_parser = ["flat", "cum"])]
    sort: String,
    /// How many functions are shown
    #[arg(short = 'n', long, value_name = "N", default_value_t = 30)]
    lines: usize,
    /// Draw a differential flame graph (SVG) too: widths are those of AFTER; red has grown, blue has shrunk. What only
    /// BEFORE has shows when the two are swapped
    #[arg(long, value_name = "FILE")]
    flamegraph: Option<PathBuf>,
    /// End with code 3 if a function, or the whole, has grown by more than this share of the total from before, and by more
    /// than chance: one false alarm in 100. Some 1,000 ticks a recording and five recordings a side show 5 %
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    fail_above: Option<f64>,
    /// Another recording of the same from before, for --fail-above
    #[arg(long = "before", value_name = "FILE", requires = "fail_above")]
    more_before: Vec<PathBuf>,
    /// Another one from after
    #[arg(long = "after", value_name = "FILE", requires = "fail_above")]
    more_after: Vec<PathBuf>,
    /// Write the verdict alone, in Markdown, as for a comment on a change
    #[arg(long, requires = "fail_above")]
    markdown: bool,
}

/// "3%" or "3".
fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| "a percentage is expected, as 3%")?;
    (0.0..=100.0).contains(&number).then_some(number / 100.0).ok_or_else(|| "0% to 100% is expected".into())
}

/// A value in both profiles.
#[derive(Clone, Copy, Default)]
struct Pair {
    before: i64,
    after: i64,
}

impl Pair {
    fn change(self) -> i64 {
        self.after.saturating_sub(self.before)
    }
}

#[derive(Default)]
struct Row {
    flat: Pair,
    cum: Pair,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (before, after) = (&arguments.before, &arguments.after);
    if before == Path::new("-") && after == before {
        return Err(Failure::of_arguments("the standard input holds one profile: name a file for the other"));
    }
    let sample_type = arguments.sample_type.as_deref();
    let (first, second) = (input::read_type(before, sample_type)?, input::read_type(after, sample_type)?);
    let (old, new) = (first.top(), second.top());
    check_types((before, &old), (after, &new))?;
    let factor = if arguments.normalize { factor((before, &old), (after, &new))? } else { 1.0 };
    // Before the table: a failure leaves no half of the result.
    if let Some(path) = &arguments.flamegraph {
        let subtitle = format!("{} to {}; red: more, blue: less", before.display(), after.display());
        let old = diff_graph::Side::new(before, first.tree(), factor);
        let new = diff_graph::Side::new(after, second.tree(), 1.0);
        output::write(Some(path), &diff_graph::draw(old, new, subtitle)?)?;
    }
    let mut text = if arguments.markdown { String::new() } else { table(arguments, &old, &new, factor) };
    let mut code = ExitCode::SUCCESS;
    if let Some(limit) = arguments.fail_above {
        let verdict = verdict(arguments, &old, [first, second], limit)?;
        text += if arguments.markdown { "" } else { "\n" };
        text += &verdict.text(arguments.markdown);
        if verdict.has_grown() {
            code = ExitCode::from(GROWN);
        }
    }
    output::write(None, text.as_bytes()).map(|()| code)
}

/// Of the program, where something has grown by more than --fail-above.
const GROWN: u8 = 3;

fn verdict(arguments: &Arguments, old: &Top, [first, second]: [Profile; 2], limit: f64) -> Result<Verdict, Failure> {
    let side = |one: Profile, more: &[PathBuf]| {
        let mut profiles = vec![one];
        for path in more {
            let profile = input::read_type(path, arguments.sample_type.as_deref())?;
            check_types((&arguments.before, old), (path, &profile.top()))?;
            profiles.push(profile);
        }
        Ok(Side::new(&profiles, arguments.sort == "cum", arguments.normalize))
    };
    let (before, after) = (side(first, &arguments.more_before)?, side(second, &arguments.more_after)?);
    Verdict::new(&before, &after, limit, !arguments.normalize)
        .ok_or_else(|| Failure::new(&arguments.before, "holds no samples: there is nothing to compare with"))
}

/// Nanoseconds less bytes, or CPU time less waiting time, mean nothing.
pub fn check_types((before, old): (&Path, &Top), (after, new): (&Path, &Top)) -> Result<(), Failure> {
    if (&old.value_type, &old.unit) == (&new.value_type, &new.unit) {
        return Ok(());
    }
    let what = format!(
        "its values are {} in {}, those of {} are {} in {}: compare profiles of one type",
        Plain(&new.value_type),
        Plain(&new.unit),
        before.display(),
        Plain(&old.value_type),
        Plain(&old.unit)
    );
    Err(Failure::new(after, what))
}

/// What values from before are multiplied by to stand for as much as those from after.
pub fn factor((before, old): (&Path, &Top), (after, new): (&Path, &Top)) -> Result<f64, Failure> {
    for (path, top) in [(before, old), (after, new)] {
        if top.total <= 0 {
            return Err(Failure::new(path, "holds no samples: there is nothing to normalize by"));
        }
    }
    Ok(new.total as f64 / old.total as f64)
}

fn rows<'a>(old: &'a Top, new: &'a Top, factor: f64) -> Vec<(&'a str, Row)> {
    let mut rows: HashMap<&str, Row> = HashMap::new();
    for TopEntry { name, flat, cum, .. } in &old.entries {
        let row = rows.entry(name).or_default();
        (row.flat.before, row.cum.before) = (unit::scaled(*flat, factor), unit::scaled(*cum, factor));
    }
    for TopEntry { name, flat, cum, .. } in &new.entries {
        let row = rows.entry(name).or_default();
        (row.flat.after, row.cum.after) = (*flat, *cum);
    }
    rows.into_iter().collect()
}

fn table(arguments: &Arguments, old: &Top, new: &Top, factor: f64) -> String {
    let (mut changed, same): (Vec<_>, Vec<_>) =
        rows(old, new, factor).into_iter().partition(|(_, row)| row.flat.change() != 0 || row.cum.change() != 0);
    changed.sort_by_key(|(name, row)| {
        let (flat, cum) = (row.flat.change().unsigned_abs(), row.cum.change().unsigned_abs());
        (Reverse(if arguments.sort == "cum" { (cum, flat) } else { (flat, cum) }), *name)
    });

    let total = Pair { before: unit::scaled(old.total, factor), after: new.total };
    let mut text = head(arguments, old, total, factor);
    for (name, row) in changed.iter().take(arguments.lines) {
        let _ = writeln!(
            text,
            "{}  {}  {}",
            columns(row.flat, total, &old.unit),
            columns(row.cum, total, &old.unit),
            Plain(name)
        );
    }
    let hidden = changed.len().saturating_sub(arguments.lines);
    for (count, what) in [(hidden, "more not shown"), (same.len(), "unchanged")] {
        if count > 0 {
            let _ = writeln!(text, "{count} {what}");
        }
    }
    text
}

fn head(arguments: &Arguments, old: &Top, total: Pair, factor: f64) -> String {
    let (unit, before, after) = (&old.unit, arguments.before.display(), arguments.after.display());
    let (scaled, change) = if arguments.normalize {
        (format!(", taken {factor:.4} times"), String::new())
    } else {
        (String::new(), format!(", {}", unit::signed(total.change(), unit)))
    };
    let mut text = format!("Type: {}\n", Plain(&old.value_type));
    let _ = writeln!(text, "Before: {} ({before}){scaled}", unit::amount(old.total, unit));
    let _ = writeln!(text, "After: {} ({after}){change}", unit::amount(total.after, unit));
    let group = |name| format!("{name:>10} {:>7} {:>7}", "before%", "after%");
    let _ = writeln!(text, "{}  {}  name", group("flat"), group("cum"));
    text
}

/// The change, and the share of each profile.
fn columns(pair: Pair, total: Pair, unit: &str) -> String {
    let share = |value, total| if total == 0 { 0.0 } else { 100.0 * value as f64 / total as f64 };
    let (before, after) = (share(pair.before, total.before), share(pair.after, total.after));
    format!("{:>10} {before:>6.2}% {after:>6.2}%", unit::signed(pair.change(), unit))
}
