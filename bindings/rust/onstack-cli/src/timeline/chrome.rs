// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's trace event format, as Perfetto (ui.perfetto.dev) and chrome://tracing read it: each thread's stacks as slices below
//! one another, waits and labels as tracks of their own.

use std::fmt::Write;

use onstack::plain::Plain;

use super::marks::{self, Mark, What};
use super::{Timeline, Track};

struct Writer<'t, 'a> {
    timeline: &'t Timeline<'a>,
    /// A text to a string of JSON.
    out: String,
    spans: u64,
}

/// As a string of JSON, without what turns the direction of writing or ends a line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(Plain(text).to_string()).to_string()
}

impl Writer<'_, '_> {
    /// An event with what comes behind its time, `,"name":"f"`.
    fn event(&mut self, kind: &str, track: &Track, at: i64, rest: &str) {
        let (process, id) = (track.process_id, track.id);
        let comma = if self.out.ends_with('[') { "" } else { ",\n" };
        let (whole, part) = (at.max(0) / 1000, at.max(0) % 1000);
        // A String takes all.
        let _ = write!(self.out, r#"{comma}{{"ph":"{kind}","pid":{process},"tid":{id},"ts":{whole}.{part:03}{rest}}}"#);
    }

    fn name(&mut self, what: &str, track: &Track, name: &str) {
        self.event("M", track, 0, &format!(r#","name":"{what}","args":{{"name":{}}}"#, quoted(name)));
    }

    /// The name stands at both ends: some readers look for it.
    fn slice(&mut self, kind: &str, track: &Track, at: i64, frame: u32) {
        let function = &self.timeline.functions[frame as usize];
        let rest = format!(r#","cat":"{}","name":{}"#, function.language.name(), quoted(&function.name));
        self.event(kind, track, at, &rest);
    }

    /// Slices of functions that stay in the stack from one sample to the next are one.
    fn slices(&mut self, track: &Track) {
        let timeline = self.timeline;
        let (mut open, mut until): (&[u32], i64) = (&[], 0);
        for point in &track.points {
            let frames = &timeline.stacks[point.stack].frames[..];
            let mut begin = point.at.saturating_sub(point.lasts);
            let follows = begin - until <= timeline.apart();
            let common = if follows { open.iter().zip(frames).take_while(|(a, b)| a == b).count() } else { 0 };
            begin = if follows { until } else { begin };
            if point.at <= begin {
                continue;
            }
            let end = if follows { begin } else { until };
            open[common..].iter().rev().for_each(|&frame| self.slice("E", track, end, frame));
            frames[common..].iter().for_each(|&frame| self.slice("B", track, begin, frame));
            (open, until) = (frames, point.at);
        }
        open.iter().rev().for_each(|&frame| self.slice("E", track, until, frame));
    }

    fn span(&mut self, track: &Track, mark: &Mark) {
        let (category, name, rest) = match &mark.what {
            What::Wait([state, wait, on, holder]) => {
                let name =
                    [wait, on].into_iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(" ");
                let name = if name.is_empty() { state.clone() } else { name };
                ("wait", name, format!(r#","args":{{"state":{},"holder":{}}}"#, quoted(state), quoted(holder)))
            }
            What::Label(key, value) => ("label", format!("{key}={value}"), String::new()),
        };
        self.spans += 1;
        let what = format!(r#","cat":"{category}","id":{},"name":{}"#, self.spans, quoted(&name));
        self.event("b", track, mark.begin, &format!("{what}{rest}"));
        self.event("e", track, mark.end, &what);
    }
}

/// The events as JSON.
pub fn bytes(timeline: &Timeline<'_>) -> Vec<u8> {
    let mut writer = Writer { timeline, out: r#"{"displayTimeUnit":"ms","traceEvents":["#.into(), spans: 0 };
    for track in &timeline.tracks {
        writer.name("process_name", track, track.process_title(timeline));
        writer.name("thread_name", track, &track.name);
        writer.slices(track);
        marks::of(timeline, &track.points).iter().for_each(|mark| writer.span(track, mark));
    }
    writer.out += "]}\n";
    writer.out.into_bytes()
}
