// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two directories of benchmarks' profiles, benchmark by benchmark.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use onstack::plain::Plain;
use onstack::Profile;

use super::measured::{amount, Measured};
use crate::failure::Failure;
use crate::input;
use crate::verdict::{Scale, Side, Verdict};

/// A benchmark's recordings, and what an operation cost in each.
#[derive(Default)]
struct Recordings {
    profiles: Vec<Profile>,
    costs: Vec<f64>,
}

fn read(directory: &Path) -> Result<BTreeMap<String, Recordings>, Failure> {
    let cannot = |error: io::Error| Failure::new(directory, format!("cannot be read: {error}"));
    let mut benchmarks = BTreeMap::<String, Recordings>::new();
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let profile = input::read(&path)?;
        let measured = Measured::of(&profile)
            .ok_or_else(|| Failure::new(&path, "is no profile of a benchmark by `onstack bench`"))?;
        let recordings = benchmarks.entry(measured.name).or_default();
        recordings.profiles.push(profile);
        recordings.costs.push(measured.cpu_ns);
    }
    if benchmarks.is_empty() {
        return Err(Failure::new(directory, "holds no profiles"));
    }
    Ok(benchmarks)
}

/// Of one benchmark: what an operation costs, and what functions' shares of it are. The cost varies with the speed of a machine
/// that others use, too; shares hardly do, but say nothing of the whole, or of a function that is nearly the whole.
struct Compared<'a> {
    name: &'a str,
    cost: Verdict,
    shares: Verdict,
}

impl<'a> Compared<'a> {
    /// `comparisons`: of benchmarks in all. `None`: there is nothing in one of them.
    fn new(name: &'a str, [old, new]: [&Recordings; 2], limit: f64, cum: bool, comparisons: usize) -> Option<Self> {
        let sides = [old, new].map(|one| Side::new(&one.profiles, cum, &Scale::Recorded));
        let [old_shares, new_shares] = sides.clone().map(|side| side.scaled(&Scale::Shares));
        let [old_side, new_side] = sides;
        let old_cost = old_side.scaled(&Scale::Totals(old.costs.clone()));
        let new_cost = new_side.scaled(&Scale::Totals(new.costs.clone()));
        Some(Self {
            name,
            cost: Verdict::new(&old_cost, &new_cost, limit, true, 2 * comparisons)?,
            shares: Verdict::new(&old_shares, &new_shares, limit, false, 2 * comparisons)?,
        })
    }

    fn has_grown(&self) -> bool {
        self.cost.has_grown() || self.shares.has_grown()
    }

    fn text(&self, markdown: bool) -> String {
        let mut text = String::new();
        for (verdict, what) in [(&self.cost, "CPU time of an operation"), (&self.shares, "shares of each recording")] {
            if verdict.has_grown() {
                let _ = writeln!(text, "\n{}{}: {what}\n", if markdown { "### " } else { "" }, Plain(self.name));
                text += &verdict.text(markdown);
            }
        }
        text
    }
}

/// What a directory has that the other one lacks.
fn missing<'a>(of: &'a BTreeMap<String, Recordings>, other: &BTreeMap<String, Recordings>) -> Vec<&'a str> {
    of.keys().filter(|name| !other.contains_key(*name)).map(String::as_str).collect()
}

/// The text, and whether anything has grown by more than `limit` (a share) and than chance.
pub fn text(before: &Path, after: &Path, limit: f64, cum: bool, markdown: bool) -> Result<(String, bool), Failure> {
    let (old, new) = (read(before)?, read(after)?);
    let both: Vec<_> = old.iter().filter_map(|(name, one)| Some((name, [one, new.get(name)?]))).collect();
    let compared: Vec<_> =
        both.iter().filter_map(|(name, recordings)| Compared::new(name, *recordings, limit, cum, both.len())).collect();
    if compared.is_empty() {
        return Err(Failure::new(after, format!("has no benchmark that {} has", before.display())));
    }
    let mut text = head(&compared, limit, markdown);
    for (what, names) in [("before", missing(&old, &new)), ("after", missing(&new, &old))] {
        if !names.is_empty() {
            let _ = writeln!(text, "\nOnly {what}: {}", Plain(&names.join(", ")));
        }
    }
    compared.iter().for_each(|one| text += &one.text(markdown));
    Ok((text, compared.iter().any(Compared::has_grown)))
}

fn head(compared: &[Compared<'_>], limit: f64, markdown: bool) -> String {
    let mut text = String::new();
    let grown = compared.iter().filter(|one| one.has_grown()).count();
    let (what, bold) = (if grown > 0 { "FAILED" } else { "ok" }, if markdown { "**" } else { "" });
    let _ = writeln!(
        text,
        "{bold}Verdict: {what}{bold}: {grown} of {} benchmarks, or functions in them, grew by more than {:.2}% and by more \
         than chance; CPU time of an operation",
        compared.len(),
        100.0 * limit
    );
    if markdown {
        text += "\n| | benchmark | before | after | change | chance |\n|---|---|--:|--:|--:|--:|\n";
    } else {
        let _ = writeln!(text, "{:>10} {:>10} {:>8} {:>8}  name", "before", "after", "change", "chance");
    }
    for one in compared {
        let (old, new) = (amount(one.cost.totals.0), amount(one.cost.totals.1));
        let [change, chance] = one.cost.whole();
        let name = Plain(one.name);
        let _ = if markdown {
            let mark = if one.has_grown() { "❌" } else { "" };
            writeln!(text, "| {mark} | `{name}` | {old} | {new} | {change} | {chance} |")
        } else {
            let mark = if one.has_grown() { "! " } else { "" };
            writeln!(text, "{old:>10} {new:>10} {change:>8} {chance:>8}  {mark}{name}")
        };
    }
    text
}
