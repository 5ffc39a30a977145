// SPDX-License-Identifier: MIT OR Apache-2.0
//! `diff --fail-above`: whether a function's cost has grown, or chance has only dealt its ticks otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use onstack_profile::view::{Seen, View};
use onstack_profile::Plain;
use onstack_profile::Profile;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// What is taken for chance: one false alarm in 100 comparisons of the same program.
const ALARM: f64 = 0.01;
/// Above the limit: no program has many more.
const FUNCTIONS: f64 = 30.0;

/// A sum, and the variance that it has because ticks come at random: each stands for its value, as in Poisson's law.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    variance: f64,
}

impl Sum {
    fn add(&mut self, value: f64, ticks: f64) {
        self.value += value;
        self.variance += value * value / ticks.max(1.0);
    }
}

/// How many events a sample's values come from.
struct Ticks {
    shown: usize,
    counted: Option<usize>,
    /// The column of bytes beside the counts, and after how many bytes on average one allocation was sampled. Both columns
    /// stand for all allocations then, and not for the few that were seen.
    bytes: Option<(usize, f64)>,
}

impl Ticks {
    fn new(view: &View) -> Self {
        let (shown, types) = (view.default_type(), view.types());
        let named = |name: &str| types.iter().position(|(known, _)| *known == name);
        let kind = types.get(shown).and_then(|(name, _)| name.rsplit_once('_')).map(|(kind, _)| kind);
        let of_kind = |what| kind.and_then(|kind| named(&format!("{kind}_{what}")));
        match (view.byte_period(), of_kind("objects"), of_kind("space")) {
            (Some(period), Some(objects), Some(space)) => {
                Self { shown, counted: Some(objects), bytes: Some((space, period)) }
            }
            _ => Self { shown, counted: types.iter().position(|&(_, unit)| unit == "count"), bytes: None },
        }
    }

    fn of(&self, values: &[i64]) -> f64 {
        let at = |index: usize| values.get(index).copied().unwrap_or(1) as f64;
        let count = self.counted.map_or(1.0, at);
        match self.bytes {
            // An allocation of so many bytes is sampled with this probability.
            Some((space, period)) if count > 0.0 => count * -(-at(space) / count / period).exp_m1(),
            _ => count,
        }
    }
}

/// One recording.
struct Run {
    total: Sum,
    functions: BTreeMap<String, Sum>,
}

impl Run {
    /// `cum`: with what the functions called.
    fn new(profile: &Profile, cum: bool) -> Self {
        let view = View::new(profile);
        let ticks = Ticks::new(&view);
        let mut run = Self { total: Sum::default(), functions: BTreeMap::new() };
        view.each(|&Seen { frames, values, .. }| {
            let (value, ticks) = (values.get(ticks.shown).copied().unwrap_or(1) as f64, ticks.of(values));
            run.total.add(value, ticks);
            let names = frames.iter().take(if cum { frames.len() } else { 1 });
            let names: BTreeSet<&str> = names.map(|&frame| &*view.functions[frame as usize].name).collect();
            names.into_iter().for_each(|name| run.functions.entry(name.into()).or_default().add(value, ticks));
        });
        run
    }

    fn scale(&mut self, factor: f64) {
        for sum in self.functions.values_mut().chain([&mut self.total]) {
            *sum = Sum { value: sum.value * factor, variance: sum.variance * factor * factor };
        }
    }

    fn of(&self, name: &str) -> Sum {
        self.functions.get(name).copied().unwrap_or_default()
    }
}

/// The recordings of one side.
pub struct Side {
    runs: Vec<Run>,
}

impl Side {
    /// `cum`: with what the functions called. `shares`: of each recording, in place of its values.
    pub fn new(profiles: &[Profile], cum: bool, shares: bool) -> Self {
        let mut runs: Vec<_> = profiles.iter().map(|profile| Run::new(profile, cum)).collect();
        for run in runs.iter_mut().filter(|run| shares && run.total.value > 0.0) {
            run.scale(1.0 / run.total.value);
        }
        Self { runs }
    }

    /// The mean, and its variance: by the ticks, or by how the recordings differ, whichever is more.
    fn mean(&self, sum: impl Fn(&Run) -> Sum) -> Sum {
        let sums: Vec<Sum> = self.runs.iter().map(sum).collect();
        let count = sums.len() as f64;
        let mean = sums.iter().map(|sum| sum.value).sum::<f64>() / count;
        let by_ticks = sums.iter().map(|sum| sum.variance).sum::<f64>() / count;
        let apart = sums.iter().map(|sum| (sum.value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Sum { value: mean, variance: by_ticks.max(apart) / count }
    }
}

/// A function, or the whole, that both sides have: shares of the total from before.
struct Row {
    name: Option<String>,
    before: f64,
    after: f64,
    /// What the change may be off by.
    error: f64,
}

impl Row {
    fn change(&self) -> f64 {
        self.after - self.before
    }
}

pub struct Verdict {
    limit: f64,
    runs: (usize, usize),
    rows: Vec<Row>,
}

impl Verdict {
    /// `limit`: a share of the total from before. `whole`: whether that can have grown, as it cannot of shares. `None`: there
    /// is no total to speak of.
    pub fn new(before: &Side, after: &Side, limit: f64, whole: bool) -> Option<Self> {
        let (old, new) = (before.mean(|run| run.total), after.mean(|run| run.total));
        if old.value <= 0.0 {
            return None;
        }
        let runs = (before.runs.len(), after.runs.len());
        let certain = quantile(runs.0 + runs.1 - 2);
        let row = |name: Option<&str>, old_sum: Sum, new_sum: Sum| Row {
            name: name.map(str::to_owned),
            before: old_sum.value / old.value,
            after: new_sum.value / old.value,
            error: certain * (old_sum.variance + new_sum.variance).sqrt() / old.value,
        };
        let names: BTreeSet<&str> =
            before.runs.iter().chain(&after.runs).flat_map(|run| run.functions.keys()).map(String::as_str).collect();
        let each = names
            .into_iter()
            .map(|name| row(Some(name), before.mean(|run| run.of(name)), after.mean(|run| run.of(name))));
        let whole = whole.then(|| row(None, old, new));
        let mut rows: Vec<_> = whole.into_iter().chain(each).filter(|row| row.before.max(row.after) > limit).collect();
        rows.sort_by(|a, b| b.change().total_cmp(&a.change()));
        Some(Self { limit, runs, rows })
    }

    fn is_grown(&self, row: &Row) -> bool {
        row.change() > self.limit && row.change() > row.error
    }

    pub fn has_grown(&self) -> bool {
        self.rows.iter().any(|row| self.is_grown(row))
    }

    pub fn text(&self, markdown: bool) -> String {
        let mut text = String::new();
        let grown = self.rows.iter().filter(|row| self.is_grown(row)).count();
        let (what, limit) = (if grown > 0 { "FAILED" } else { "ok" }, percent(self.limit));
        let (before, after) = self.runs;
        let bold = if markdown { "**" } else { "" };
        let _ = writeln!(text, "{bold}Verdict: {what}{bold}: {grown} grew by more than {limit} of the total from before, and by more than chance");
        let _ = writeln!(
            text,
            "Recordings: {before} before, {after} after{}",
            match (before, after) {
                (1, 1) => "; of one recording a side nobody knows how recordings differ: give more (--before, --after)",
                _ if before + after < 6 =>
                    "; so few hardly tell how recordings differ, and only large changes are found: give three a side or more",
                _ => "",
            }
        );
        if markdown {
            text += "\n| | function | before | after | change | chance |\n|---|---|--:|--:|--:|--:|\n";
        } else {
            let _ = writeln!(text, "{:>8} {:>8} {:>8} {:>8}  name", "before", "after", "change", "chance");
        }
        for row in &self.rows {
            let name = row.name.as_deref().map_or("[the whole]".into(), |name| Plain(name).to_string());
            let (old, new, change) = (percent(row.before), percent(row.after), signed(row.change()));
            let chance = format!("±{}", percent(row.error));
            let has_grown = self.is_grown(row);
            let _ = if markdown {
                let mark = if has_grown { "❌" } else { "" };
                writeln!(
                    text,
                    "| {mark} | `{}` | {old} | {new} | {change} | {chance} |",
                    name.replace('|', "\\|").replace('`', "'")
                )
            } else {
                writeln!(text, "{old:>8} {new:>8} {change:>8} {chance:>8}  {}{name}", if has_grown { "! " } else { "" })
            };
        }
        text
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

fn signed(share: f64) -> String {
    format!("{:+.2}%", 100.0 * share)
}

/// What a change is compared with, in standard errors: the false alarm of ALARM by chance, in comparisons of many functions. By
/// Student's law, as few recordings tell their own spread badly; without any degrees of freedom the ticks' law is
/// all that is known.
fn quantile(degrees: usize) -> f64 {
    let certain = 1.0 - ALARM / 2.0 / FUNCTIONS;
    match StudentsT::new(0.0, 1.0, degrees as f64) {
        Ok(law) => law.inverse_cdf(certain),
        Err(_) => Normal::standard().inverse_cdf(certain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reproducible generator: splitmix64.
    struct Random(u64);

    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = self.0;
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (x ^ x >> 31) as f64 / 2f64.powi(64)
        }

        /// Twelve uniform numbers less six are normal enough.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
        }

        /// Ticks of a function that has so many on average.
        fn ticks(&mut self, mean: f64) -> i64 {
            (mean + mean.sqrt() * self.normal()).round().max(0.0) as i64
        }
    }

    /// Thirty functions of 100 to 400 ticks; recordings differ by some per cent, and the first function by `factor`.
    fn recordings(random: &mut Random, count: usize, spread: f64, factor: f64) -> Vec<Profile> {
        let mut one = || {
            let speed = 1.0 + spread * random.normal();
            let line = |function: usize| {
                let mean = (100 + 10 * function) as f64 * if function == 0 { factor } else { 1.0 };
                format!("main;f{function} {}\n", random.ticks(mean * speed))
            };
            Profile::from_folded(&(0..30).map(line).collect::<String>()).unwrap()
        };
        (0..count).map(|_| one()).collect()
    }

    fn alarms(rounds: usize, count: usize, spread: f64, factor: f64, limit: f64) -> usize {
        let mut random = Random(7);
        let mut side = |factor| Side::new(&recordings(&mut random, count, spread, factor), false, false);
        (0..rounds)
            .filter(|_| Verdict::new(&side(1.0), &side(factor), limit, true).is_some_and(|verdict| verdict.has_grown()))
            .count()
    }

    #[test]
    #[cfg_attr(miri, ignore)] // minutes
    fn the_same_program_is_not_accused() {
        for (count, spread) in [(1, 0.0), (3, 0.03), (5, 0.03), (10, 0.05)] {
            let alarms = alarms(400, count, spread, 1.0, 0.0);
            assert!(alarms <= 4, "{alarms} of 400 with {count} recordings a side");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn what_grows_is_found() {
        // The first function has a hundredth of the whole of 7,350 ticks: it grows by 3, 5 and 10 % of the whole.
        for (count, growth, found) in [(5, 0.03, 90), (5, 0.05, 100), (5, 0.10, 100), (1, 0.05, 100)] {
            let alarms = alarms(100, count, 0.01, 1.0 + growth * 7350.0 / 100.0, growth / 2.0);
            assert!(alarms >= found, "{alarms} of 100 with {growth} and {count} recordings a side");
        }
    }

    /// Blocks of 64 bytes and of 1 MiB, sampled once in 512 KiB: what a heap profile says of a program that allocates the same
    /// each time.
    fn heap(random: &mut Random) -> Profile {
        use onstack_pprof_compat::protos::{Function, Line, Location, Message, Profile as Pprof, Sample, ValueType};
        let texts = ["", "alloc_objects", "count", "alloc_space", "bytes", "space", "f0", "f1"];
        let kind = |ty, unit| ValueType { ty, unit };
        let mut pprof = Pprof {
            string_table: texts.map(String::from).to_vec(),
            sample_type: vec![kind(1, 2), kind(3, 4)],
            default_sample_type: 3,
            period_type: Some(kind(5, 4)),
            period: 512 << 10,
            ..Pprof::default()
        };
        for (function, size) in [(1, 64.0), (2, 1048576.0)] {
            let seen: f64 = 1.0 - f64::exp(-size / 524288.0);
            let objects = (random.ticks(200.0) as f64 / seen).round();
            pprof.function.push(Function { id: function, name: function as i64 + 5, ..Function::default() });
            let line = vec![Line { function_id: function, ..Line::default() }];
            pprof.location.push(Location { id: function, line, ..Location::default() });
            let value = vec![objects as i64, (objects * size) as i64];
            pprof.sample.push(Sample { location_id: vec![function], value, ..Sample::default() });
        }
        Profile::read(&pprof.encode_to_vec()[..]).unwrap()
    }

    #[test]
    fn sampled_allocations_stand_for_many_and_are_few() {
        let mut random = Random(11);
        let mut side = || Side::new(&[heap(&mut random)], false, false);
        let alarms = (0..200).filter(|_| Verdict::new(&side(), &side(), 0.01, true).unwrap().has_grown()).count();
        assert!(alarms <= 2, "{alarms} of 200");
    }

    #[test]
    fn few_recordings_prove_little() {
        let of = [1, 2, 4, 8, 9, 18].map(quantile);
        assert!(of.windows(2).all(|pair| pair[0] > pair[1]) && of[5] > quantile(0), "{of:?}");
        // Tables of both laws.
        assert!((quantile(0) - 3.5879).abs() < 0.001 && (quantile(2) - 54.76).abs() < 0.01, "{of:?}");
    }

    #[test]
    fn only_what_is_above_the_limit_fails() {
        let side = |text: &str| Side::new(&[Profile::from_folded(text).unwrap()], false, false);
        let (before, after) = (side("main;f 10000\nmain;g 90000\n"), side("main;f 15000\nmain;g 90000\n"));
        let verdict = |limit| Verdict::new(&before, &after, limit, true).unwrap();
        assert!(verdict(0.04).has_grown() && !verdict(0.06).has_grown());
        let text = verdict(0.04).text(false);
        assert!(text.starts_with("Verdict: FAILED: 2 grew by more than 4.00%") && text.contains("+5.00%"), "{text}");
        assert!(text.contains("! f\n") && text.contains("  g\n") && text.contains("give more"), "{text}");
        let text = verdict(0.06).text(true);
        assert!(
            text.starts_with("**Verdict: ok**") && text.contains("|  | `f` | 10.00% | 15.00% | +5.00% | ±"),
            "{text}"
        );
        assert!(Verdict::new(&side("main 0\n"), &after, 0.1, true).is_none());
    }
}
