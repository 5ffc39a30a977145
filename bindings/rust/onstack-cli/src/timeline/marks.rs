// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread's samples say besides their stacks, as spans of time: what it waited for, and its labels.

use std::collections::BTreeMap;

use super::{Point, Stack, Timeline};

/// A span in which samples that follow one another say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'t> {
    pub begin: i64,
    pub end: i64,
    pub what: What<'t>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What<'t> {
    /// The state, the call, what it is on, who holds that: "" where it is not known.
    Wait([&'t str; 4]),
    /// Key and value.
    Label(&'t str, &'t str),
}

/// Labels that tell of waiting.
const WAIT: [&str; 4] = ["state", "wait", "on", "holder"];

/// Of a sample; ours have room for few.
const MOST_LABELS: usize = 100;

/// The marks of a thread, by their begin.
pub fn of<'t>(timeline: &'t Timeline<'_>, points: &[Point]) -> Vec<Mark<'t>> {
    let (mut done, mut open) = (Vec::new(), BTreeMap::<What<'t>, Mark<'t>>::new());
    let mut before = None;
    for point in points {
        let begin = point.at - point.lasts;
        let goes_on = |mark: &Mark<'t>| begin - mark.end <= timeline.apart();
        if before.replace(point.stack) == Some(point.stack) && open.values().all(goes_on) {
            open.values_mut().for_each(|mark| mark.end = mark.end.max(point.at));
            continue;
        }
        let said = said(&timeline.stacks[point.stack]);
        // What this sample does not say, or what is too long ago, is over.
        open.retain(|what, mark| {
            let stays = said.contains(what) && goes_on(mark);
            if !stays {
                done.push(*mark);
            }
            stays
        });
        for what in said {
            let mark = open.entry(what).or_insert(Mark { begin, end: point.at, what });
            mark.end = mark.end.max(point.at);
        }
    }
    done.extend(open.into_values());
    done.sort_by_key(|mark| (mark.begin, mark.end));
    done
}

fn said<'t>(stack: &'t Stack<'_>) -> Vec<What<'t>> {
    let mut said = Vec::new();
    if !stack.runs() {
        said.push(What::Wait(WAIT.map(|key| stack.label(key).unwrap_or_default())));
    }
    let others = stack.labels.iter().filter(|(key, _)| !WAIT.contains(key)).take(MOST_LABELS);
    said.extend(others.map(|(key, value)| What::Label(key, value)));
    said
}
