// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's trace event format, as Perfetto (ui.perfetto.dev) and chrome://tracing read it: each thread's stacks as slices below
//! one another, waits and labels as tracks of their own.

use std::fmt::Write;

use onstack::plain::Plain;

use super::marks::{self, Mark, What};
use super::{Timeline, Track};

/// Viewers hold all of them in memory, in a browser.
const MOST_BYTES: usize = 1 << 30;

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

    /// Perfetto counts an empty name as an error of the file.
    fn name(&mut self, what: &str, track: &Track, name: &str) {
        if name.is_empty() {
            return;
        }
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
        let (mut open, mut until): (&[u32], Option<i64>) = (&[], None);
        for point in &track.points {
            let frames = &timeline.stacks[point.stack].frames[..];
            let begin = point.at - point.lasts;
            let follows = until.filter(|until| begin - until <= timeline.apart());
            let begin = follows.unwrap_or(begin);
            if point.at <= begin || self.is_full() {
                continue;
            }
            let common =
                if follows.is_some() { open.iter().zip(frames).take_while(|(a, b)| a == b).count() } else { 0 };
            let end = follows.or(until).unwrap_or(begin);
            open[common..].iter().rev().for_each(|&frame| self.slice("E", track, end, frame));
            frames[common..].iter().for_each(|&frame| self.slice("B", track, begin, frame));
            (open, until) = (frames, Some(point.at));
        }
        open.iter().rev().for_each(|&frame| self.slice("E", track, until.unwrap_or(0), frame));
    }

    fn is_full(&self) -> bool {
        self.out.len() > MOST_BYTES
    }

    fn span(&mut self, track: &Track, mark: &Mark) {
        let (category, what, rest) = match mark.what {
            What::Wait([state, wait, on, holder]) => {
                let what = [wait, on].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
                let what = if what.is_empty() { state.to_owned() } else { what };
                ("wait", what, format!(r#","args":{{"state":{},"holder":{}}}"#, quoted(state), quoted(holder)))
            }
            What::Label(key, value) => ("label", format!("{key}={value}"), String::new()),
        };
        self.spans += 1;
        // Readers show such events by process, which is said by a local id.
        let name = quoted(&format!("{}: {what}", track.name));
        let event = format!(r#","cat":"{category}","id2":{{"local":"{:#x}"}},"name":{name}"#, self.spans);
        self.event("b", track, mark.begin, &format!("{event}{rest}"));
        self.event("e", track, mark.end, &event);
    }
}

/// The events as JSON.
///
/// # Errors
/// A text, where they would be too many.
pub fn bytes(timeline: &Timeline<'_>) -> Result<Vec<u8>, String> {
    let mut writer = Writer { timeline, out: r#"{"displayTimeUnit":"ms","traceEvents":["#.into(), spans: 0 };
    for track in &timeline.tracks {
        writer.name("process_name", track, track.process_title(timeline));
        writer.name("thread_name", track, &track.name);
        writer.slices(track);
        for mark in marks::of(timeline, &track.points) {
            if !writer.is_full() {
                writer.span(track, &mark);
            }
        }
    }
    if writer.is_full() {
        return Err("its events would take more than 1 GiB; the format firefox takes a tenth of that".into());
    }
    writer.out += "]}\n";
    Ok(writer.out.into_bytes())
}
