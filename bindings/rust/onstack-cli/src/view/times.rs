// SPDX-License-Identifier: MIT OR Apache-2.0
//! When samples were taken, for the page's heat map: in cells, of which a column of the map has fifty.

use std::collections::{BTreeMap, HashMap};

use onstack_profile::message::{self, Moment};

use super::encode::Bytes;

/// In heat.js `PARTS`.
const PARTS: u64 = 50;
const MOST_COLUMNS: u64 = 400;
/// What a column of the map may stand for, in seconds; more is so many hours.
const COLUMNS: [u64; 9] = [1, 2, 5, 10, 20, 60, 120, 300, 1200];
/// In all rows. Those of the samples beyond have one cell each.
const MOST_CELLS: usize = 10 << 20;

/// The time of a sample, in microseconds since the profile's start: the first tick that it stands for, the last one, and how
/// many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u64,
    last: u64,
    weight: u64,
}

/// Of samples with one stack and one set of labels.
#[derive(Default)]
pub struct Times(HashMap<(u32, u32), Vec<Span>>);

impl Times {
    /// `tick`: how many nanoseconds one is of; asked where it is needed.
    pub fn add(&mut self, row: (u32, u32), times: &message::Times, tick: impl FnOnce() -> Option<i64>) {
        if !times.is_empty() {
            let tick = tick().unwrap_or(0) / 1000;
            self.0.entry(row).or_default().extend(times.iter().map(|moment| span(moment, tick)));
        }
    }

    /// How long a cell is, and how many there are; 0 where no times are known. Then their moments by rows.
    pub fn write(&self, bytes: &mut Bytes, rows: &[(u32, u32)]) {
        let Some(last) = self.0.values().flatten().map(|span| span.last).max() else { return bytes.number(0) };
        let (cell, mut left) = (cell(last), MOST_CELLS);
        let cells: Vec<Vec<(u64, u64)>> = rows
            .iter()
            .map(|row| {
                let cells = cells(self.0.get(row).map_or(&[], Vec::as_slice), cell, left);
                left = left.saturating_sub(cells.len());
                cells
            })
            .collect();
        bytes.number(cell);
        bytes.number(last / cell + 1);
        bytes.number(cells.iter().map(|cells| cells.len() as u64).sum());
        for cells in cells {
            let mut before = 0;
            bytes.list(cells.into_iter(), |bytes, (at, weight)| {
                bytes.number(at - before);
                bytes.number(weight);
                before = at;
            });
        }
    }
}

/// What a sample of several ticks stands for lies before it: a thread that waits has one sample for all of the time. What lies
/// before the start is of its first moment.
fn span(Moment { at, weight }: Moment, tick: i64) -> Span {
    let earlier = i64::try_from(weight.saturating_sub(1)).unwrap_or(i64::MAX).saturating_mul(tick);
    let since_start = |at: i64| u64::try_from(at).unwrap_or(0);
    Span { first: since_start(at.saturating_sub(earlier)), last: since_start(at), weight }
}

/// The ticks of each cell that has any, by the cells. Spans of many ticks are even in theirs, but for `most` cells of all.
fn cells(spans: &[Span], cell: u64, most: usize) -> Vec<(u64, u64)> {
    let mut alone = BTreeMap::<u64, u64>::new();
    // What is added from a cell on, or no more.
    let mut changes = BTreeMap::<u64, i128>::new();
    let mut change = |from: u64, to: u64, weight: u64| {
        if weight > 0 && from < to {
            *changes.entry(from).or_default() += i128::from(weight);
            *changes.entry(to).or_default() -= i128::from(weight);
        }
    };
    let mut reach = 0u64;
    for span in spans {
        let (first, end) = (span.first / cell, span.last / cell + 1);
        let count = (end - first).min(span.weight.max(1));
        reach = reach.saturating_add(count);
        if count == 1 || reach > most as u64 {
            let sum = alone.entry(end - 1).or_default();
            *sum = sum.saturating_add(span.weight);
        } else if count == end - first {
            change(first, end, span.weight / count);
            change(end - span.weight % count, end, 1);
        } else {
            // Fewer ticks than cells.
            for tick in 0..count {
                *alone.entry(end - 1 - tick * (end - first) / count).or_default() += 1;
            }
        }
    }
    let (mut level, mut before) = (0i128, 0);
    for (at, change) in changes {
        for between in before..at {
            if level > 0 {
                let sum = alone.entry(between).or_default();
                *sum = sum.saturating_add(u64::try_from(level).unwrap_or(u64::MAX));
            }
        }
        (level, before) = (level + change, at);
    }
    alone.into_iter().collect()
}

/// Microseconds of a cell, so that the map has not too many columns for a screen.
fn cell(last: u64) -> u64 {
    let fits = |seconds: u64| last / (seconds * 1_000_000) < MOST_COLUMNS;
    let hours = 1 + last / (3_600_000_000 * MOST_COLUMNS);
    COLUMNS.into_iter().find(|&seconds| fits(seconds)).unwrap_or(3600 * hours) * 1_000_000 / PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(at: i64, weight: u64, tick: i64, cell: u64) -> Vec<(u64, u64)> {
        cells(&[span(Moment { at, weight }, tick)], cell, MOST_CELLS)
    }

    #[test]
    fn a_sample_of_many_ticks_is_spread() {
        assert_eq!(of(25, 1, 10, 10), [(2, 1)]);
        assert_eq!(of(25, 3, 10, 10), [(0, 1), (1, 1), (2, 1)]);
        assert_eq!(of(25, 6, 5, 10), [(0, 2), (1, 2), (2, 2)]);
        assert_eq!(of(25, 8, 3, 10), [(0, 2), (1, 3), (2, 3)], "the rest at the end");
        assert_eq!(of(25, 2, 20, 10), [(1, 1), (2, 1)], "fewer than cells");
        assert_eq!(of(25, u64::MAX, 0, 10), [(2, u64::MAX)]);
        let far = of(i64::MAX, u64::MAX, i64::MAX, cell(i64::MAX as u64));
        assert_eq!(far.iter().map(|&(_, weight)| u128::from(weight)).sum::<u128>(), u128::from(u64::MAX));
        assert!(far.len() <= (PARTS * MOST_COLUMNS) as usize, "{}", far.len());
    }

    #[test]
    fn samples_beyond_the_room_have_a_cell_each() {
        let spans = vec![Span { first: 0, last: 999, weight: 1000 }; 3];
        let cells = cells(&spans, 1, 1500);
        assert_eq!((cells.len(), cells[0], cells[999]), (1000, (0, 1), (999, 2001)));
    }

    #[test]
    fn a_map_has_columns_of_whole_seconds() {
        let seconds = [0, 399, 400, 3600, 86_400, 600_000, 2_000_000];
        let columns = seconds.map(|seconds| cell(seconds * 1_000_000) * PARTS / 1_000_000);
        assert_eq!(columns, [1, 1, 2, 10, 300, 3600, 7200]);
    }
}
