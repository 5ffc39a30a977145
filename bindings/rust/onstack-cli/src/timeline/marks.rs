// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread's samples say besides their stacks, as spans of time: what it waited for, and its labels.

use std::collections::BTreeMap;

use super::{Point, Timeline};

/// A span in which samples that follow one another say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub begin: i64,
    pub end: i64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The state, the call, what it is on, who holds that: "" where it is not known.
    Wait([String; 4]),
    /// Key and value.
    Label(String, String),
}

/// Labels that tell of waiting.
const WAIT: [&str; 4] = ["state", "wait", "on", "holder"];

/// The marks of a thread, by their begin.
pub fn of(timeline: &Timeline<'_>, points: &[Point]) -> Vec<Mark> {
    let (mut done, mut open) = (Vec::new(), BTreeMap::<String, Mark>::new());
    for point in points {
        let begin = point.at.saturating_sub(point.lasts);
        for (key, what) in said(timeline, point) {
            match open.get_mut(&key) {
                Some(mark) if mark.what == what && begin - mark.end <= timeline.apart() => {
                    mark.end = mark.end.max(point.at);
                }
                _ => done.extend(open.insert(key, Mark { begin, end: point.at, what })),
            }
        }
    }
    done.extend(open.into_values());
    done.sort_by_key(|mark| (mark.begin, mark.end));
    done
}

/// By what there is one of at a time.
fn said(timeline: &Timeline<'_>, point: &Point) -> Vec<(String, What)> {
    let stack = &timeline.stacks[point.stack];
    let mut said = Vec::new();
    if !stack.runs() {
        let texts = WAIT.map(|key| stack.label(key).unwrap_or_default().to_owned());
        said.push((String::new(), What::Wait(texts)));
    }
    let others = stack.labels.iter().filter(|(key, _)| !WAIT.contains(key));
    said.extend(others.map(|(key, value)| (format!("label {key}"), What::Label((*key).to_owned(), value.to_string()))));
    said
}
