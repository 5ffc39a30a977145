// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differential flame graphs: inferno joins the stacks of two profiles and draws them.
//!
//! Not from folded stacks, which count ticks: those of two frequencies cannot be compared. The values are the profile's
//! own, nanoseconds for CPU time.

use std::io;
use std::path::Path;

use inferno::differential;
use inferno::flamegraph::{self, Options};
use onstack_profile::{Tree, TreeNode};

use crate::failure::Failure;
use crate::unit;

/// The library multiplies a change, which may be twice as large, by 150 for its colour.
const LIMIT: u64 = 1 << 54;

/// One of the two profiles, and what its values are taken times.
pub struct Side<'a> {
    path: &'a Path,
    tree: Tree,
    factor: f64,
}

impl<'a> Side<'a> {
    pub fn new(path: &'a Path, tree: Tree, factor: f64) -> Self {
        Self { path, tree, factor }
    }

    /// A line for each stack. The library would scale by cutting off fractions, which makes nothing of small counts.
    fn lines(&self) -> Result<String, Failure> {
        let mut lines = String::new();
        let mut sum = 0u64;
        let mut path: Vec<String> = Vec::new();
        let mut rest: Vec<(&TreeNode, usize)> = self.tree.roots.iter().map(|node| (node, 0)).collect();
        while let Some((node, depth)) = rest.pop() {
            path.truncate(depth);
            path.push(frame(&node.name));
            let value = unit::scaled(node.flat, self.factor) / divisor(&self.tree.unit);
            let added = u64::try_from(value).ok().and_then(|value| sum.checked_add(value));
            sum = added.filter(|&sum| sum < LIMIT).ok_or_else(|| {
                Failure::new(self.path, "holds values below zero, or too large ones: no flame graph can show them")
            })?;
            if value > 0 {
                lines += &format!("{} {value}\n", path.join(";"));
            }
            rest.extend(node.children.iter().map(|child| (child, depth + 1)));
        }
        Ok(lines)
    }
}

/// Microseconds: six digits fewer to read than nanoseconds have, and still exact enough for every tick.
fn divisor(unit: &str) -> i64 {
    if unit == "nanoseconds" {
        1000
    } else {
        1
    }
}

/// Without what folded stacks use themselves, and what XML cannot hold.
fn frame(name: &str) -> String {
    let clean = |c: char| match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    };
    match name.trim() {
        "" => "[unknown]".into(),
        name => name.chars().map(clean).collect(),
    }
}

pub fn draw(before: Side<'_>, after: Side<'_>, subtitle: String) -> Result<Vec<u8>, Failure> {
    let (old, new) = (before.lines()?, after.lines()?);
    if new.is_empty() {
        return Err(Failure::new(after.path, "holds no samples: there is nothing to draw"));
    }
    let cannot = |error: io::Error| Failure::new(after.path, format!("cannot be drawn: {error}"));
    let mut joined = Vec::new();
    differential::from_readers(differential::Options::default(), old.as_bytes(), new.as_bytes(), &mut joined)
        .map_err(cannot)?;

    let joined = String::from_utf8_lossy(&joined);
    let mut options = Options::default();
    options.title = "Differential Flame Graph".into();
    options.subtitle = Some(subtitle);
    options.count_name = count_name(&after.tree);
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, joined.lines(), &mut picture).map_err(cannot)?;
    Ok(picture)
}

fn count_name(tree: &Tree) -> String {
    match tree.unit.as_str() {
        "nanoseconds" => "µs".into(),
        "count" => tree.value_type.clone(),
        unit => unit.into(),
    }
}
