// SPDX-License-Identifier: MIT OR Apache-2.0
//! When samples were taken, for the page's heat map: in cells, of which a column of the map has fifty.

use std::collections::{BTreeMap, HashMap};

use onstack::times::{self, Moment};

use super::encode::Bytes;

/// In heat.js `PARTS`.
const PARTS: u64 = 50;
const MOST_COLUMNS: u64 = 400;
/// Of one sample; more stand at its end.
const MOST_TICKS: u64 = 100_000;
/// What a column of the map may stand for, in seconds; more is so many hours.
const COLUMNS: [u64; 9] = [1, 2, 5, 10, 20, 60, 120, 300, 1200];

/// Microseconds since the profile's start and weights, of samples with one stack and one set of labels.
#[derive(Default)]
pub struct Times(HashMap<(u32, u32), Vec<(u64, u64)>>);

impl Times {
    /// `tick`: how many nanoseconds one is of.
    pub fn add(&mut self, row: (u32, u32), times: &times::Times, tick: Option<i64>) {
        if !times.is_empty() {
            let tick = tick.unwrap_or(0) / 1000;
            self.0.entry(row).or_default().extend(times.iter().flat_map(|moment| ticks(moment, tick)));
        }
    }

    /// How long a cell is, and how many there are; 0 where no times are known. Then their moments by rows.
    pub fn write(&self, bytes: &mut Bytes, rows: &[(u32, u32)]) {
        let Some(last) = self.0.values().flatten().map(|&(at, _)| at).max() else { return bytes.number(0) };
        let cell = cell(last);
        let cells: Vec<BTreeMap<u64, u64>> = rows.iter().map(|row| self.cells(row, cell)).collect();
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

    fn cells(&self, row: &(u32, u32), cell: u64) -> BTreeMap<u64, u64> {
        let mut cells = BTreeMap::new();
        for &(at, weight) in self.0.get(row).into_iter().flatten() {
            let sum: &mut u64 = cells.entry(at / cell).or_default();
            *sum = sum.saturating_add(weight);
        }
        cells
    }
}

/// What a sample of several ticks stands for lies before it: a thread that waits has one sample for all of the time.
fn ticks(Moment { at, weight }: Moment, tick: i64) -> impl Iterator<Item = (u64, u64)> {
    let alone = i64::try_from(weight.clamp(1, MOST_TICKS)).unwrap_or(1);
    let rest = weight.saturating_sub(MOST_TICKS);
    // What lies before the start is of its first moment.
    (0..alone).map(move |back| {
        let at = u64::try_from(at.saturating_sub(back.saturating_mul(tick))).unwrap_or(0);
        (at, if back == 0 { 1 + rest } else { 1 })
    })
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

    #[test]
    fn a_sample_of_many_ticks_is_spread() {
        let spread = |weight| ticks(Moment { at: 25, weight }, 10).collect::<Vec<_>>();
        assert_eq!(spread(4), [(25, 1), (15, 1), (5, 1), (0, 1)]);
        assert_eq!(spread(u64::MAX).iter().fold(0u64, |sum, tick| sum + tick.1), u64::MAX);
    }

    #[test]
    fn a_map_has_columns_of_whole_seconds() {
        let seconds = [0, 399, 400, 3600, 86_400, 600_000, 2_000_000];
        let columns = seconds.map(|seconds| cell(seconds * 1_000_000) * PARTS / 1_000_000);
        assert_eq!(columns, [1, 1, 2, 10, 300, 3600, 7200]);
    }
}
