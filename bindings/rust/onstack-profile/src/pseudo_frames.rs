// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that no code has: labels as roots or leaves of stacks, and one for threads of a runtime that wait for work.

use std::collections::{HashMap, HashSet};
use std::mem;

use crate::by_label::texts;
use crate::message::{Function, Label, Line, Location, ProfileMessage, Sample};
use crate::stacks::Stacks;
use crate::Profile;

/// A thread of `runtime` waits for work where one of the functions in its stack has `function` as a part of its name, and
/// none has `unless`.
struct Idle {
    runtime: &'static str,
    function: &'static str,
    unless: Option<&'static str>,
}

const fn idle(runtime: &'static str, function: &'static str) -> Idle {
    Idle { runtime, function, unless: None }
}

const IDLE: &[Idle] = &[
    idle("Go", "runtime.stopm"),
    idle("Go", "runtime.findRunnable"),
    idle("Go", "runtime.sysmon"),
    idle("Go", "runtime.templateThread"),
    idle("tokio", "tokio::runtime::scheduler::multi_thread::worker::Context::park"),
    // It runs the workers as well, and blocking work.
    Idle {
        runtime: "tokio",
        function: "tokio::runtime::blocking::pool::Inner::run",
        unless: Some("::blocking::task::"),
    },
    idle("rayon", "rayon_core::sleep::Sleep::sleep"),
    idle("node", "::BlockingPop("),
];

/// Locations of functions that the profile does not have yet.
struct Frames {
    known: HashMap<String, u64>,
    taken: HashSet<u64>,
    last: u64,
}

impl Frames {
    fn of(message: &ProfileMessage) -> Self {
        let locations = message.location.iter().map(|location| location.id);
        let functions = message.function.iter().map(|function| function.id);
        Self { known: HashMap::new(), taken: locations.chain(functions).collect(), last: 0 }
    }

    fn id(&mut self, message: &mut ProfileMessage, name: &str) -> u64 {
        if let Some(&id) = self.known.get(name) {
            return id;
        }
        self.last = (self.last + 1..).find(|id| !self.taken.contains(id)).expect("fewer than there are numbers");
        let (id, text) = (self.last, message.intern(name));
        message.function.push(Function { id, name: text, system_name: text, ..Function::default() });
        let line = vec![Line { function_id: id, ..Line::default() }];
        message.location.push(Location { id, line, ..Location::default() });
        self.known.insert(name.to_owned(), id);
        id
    }
}

impl Profile {
    /// Puts what samples have of labels below their stacks, as frames `key=value`, the first key as the root; a sample without
    /// such a label gets none. So a picture of time by lock begins with the locks.
    pub fn labels_as_roots(&mut self, keys: &[&str]) {
        self.labels_as_frames(keys, |stack, frames| stack.extend(frames.iter().rev()));
    }

    /// Puts them above their stacks, the last key as the leaf.
    pub fn labels_as_leaves(&mut self, keys: &[&str]) {
        self.labels_as_frames(keys, |stack, frames| {
            stack.splice(0..0, frames.iter().rev().copied());
        });
    }

    fn labels_as_frames(&mut self, keys: &[&str], put: impl Fn(&mut Vec<u64>, &[u64])) {
        let mut frames = Frames::of(&self.message);
        let mut samples = mem::take(&mut self.message.sample);
        for sample in &mut samples {
            let mut ids = Vec::new();
            for key in keys {
                let values = texts(&self.message, &sample.label, key);
                if !values.is_empty() {
                    ids.push(frames.id(&mut self.message, &format!("{key}={}", values.join(","))));
                }
            }
            put(&mut sample.location_id, &ids);
        }
        self.message.sample = samples;
    }

    /// Makes one frame, as `[idle: tokio]`, of the stacks of threads that wait for work in a runtime's own code: Go's, tokio's,
    /// rayon's and node's. For profiles of real time, whose samples have a label `state`; what runs stays as it is. The
    /// same text becomes their label `wait`; `on` and `holder` go with the stack.
    pub fn fold_idle(&mut self) {
        let mut frames = Frames::of(&self.message);
        let stacks = Stacks::new(&self.message);
        let rests =
            |sample: &Sample| texts(&self.message, &sample.label, "state").iter().any(|state| state != "running");
        let samples = self.message.sample.iter();
        let waits: Vec<_> =
            samples.map(|sample| if rests(sample) { idle_in(&stacks.names(sample)) } else { None }).collect();
        let mut samples = mem::take(&mut self.message.sample);
        for (sample, runtime) in samples.iter_mut().zip(waits) {
            let Some(runtime) = runtime else { continue };
            let name = format!("[idle: {runtime}]");
            sample.location_id = vec![frames.id(&mut self.message, &name)];
            sample.label.retain(|label| !matches!(self.message.text(label.key), "wait" | "on" | "holder"));
            let (key, str) = (self.message.intern("wait"), self.message.intern(&name));
            sample.label.push(Label { key, str, ..Label::default() });
        }
        self.message.sample = samples;
    }
}

fn idle_in(names: &[String]) -> Option<&'static str> {
    // A method may be `<a::Worker>::park` or `a::Worker::park`, by the mangling.
    let names: Vec<String> = names.iter().map(|name| name.replace(['<', '>'], "")).collect();
    let has = |part: &str| names.iter().any(|name| name.contains(part));
    let found = IDLE.iter().find(|idle| has(idle.function) && !idle.unless.is_some_and(has))?;
    Some(found.runtime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ValueType;

    /// Three threads that wait for locks 0xa and 0xb, and one for work.
    fn profile() -> Profile {
        let mut message = ProfileMessage {
            sample_type: vec![ValueType::default()],
            string_table: vec![String::new()],
            ..ProfileMessage::default()
        };
        let mut frames = Frames::of(&message);
        let stacks: [(&[&str], &str, i64); 4] = [
            (&["futex", "pay", "main"], "0xa", 1),
            (&["futex", "find", "main"], "0xa", 2),
            (&["futex", "pay", "main"], "0xb", 4),
            (&["futex", "<tokio::runtime::scheduler::multi_thread::worker::Context>::park_internal", "run"], "0xc", 8),
        ];
        for (names, on, value) in stacks {
            let location_id = names.iter().map(|name| frames.id(&mut message, name)).collect();
            let pair = [("on", on), ("state", "blocked")];
            let label = pair
                .map(|(key, text)| Label { key: message.intern(key), str: message.intern(text), ..Label::default() })
                .to_vec();
            message.sample.push(Sample { location_id, value: vec![value], label, ..Sample::default() });
        }
        Profile { message }
    }

    fn folded(change: impl Fn(&mut Profile)) -> String {
        let mut changed = profile();
        change(&mut changed);
        // What a reader makes of it.
        let mut text = Vec::new();
        Profile::read(&changed.to_bytes()[..]).unwrap().folded(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn labels_are_roots_or_leaves() {
        let roots = folded(|profile| {
            profile.fold_idle();
            profile.labels_as_roots(&["state", "wait", "on", "holder"]);
        });
        assert_eq!(
            roots,
            "state=blocked;on=0xa;main;find;futex 2\n\
             state=blocked;on=0xa;main;pay;futex 1\n\
             state=blocked;on=0xb;main;pay;futex 4\n\
             state=blocked;wait=[idle: tokio];[idle: tokio] 8\n"
        );
        let leaves = folded(|profile| {
            profile.retain_functions(|name| name == "main");
            profile.labels_as_leaves(&["on", "state"]);
        });
        assert_eq!(
            leaves,
            "main;find;futex;on=0xa;state=blocked 2\n\
             main;pay;futex;on=0xa;state=blocked 1\n\
             main;pay;futex;on=0xb;state=blocked 4\n"
        );
    }

    #[test]
    fn who_works_is_not_idle() {
        let idle = |names: &[&str]| idle_in(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let pool = "tokio::runtime::blocking::pool::Inner::run";
        assert_eq!(idle(&["syscall", "parking_lot::condvar::Condvar::wait_for", pool, "start"]), Some("tokio"));
        let worker = "tokio::runtime::scheduler::multi_thread::worker::Context::park_internal";
        let task = "<tokio::runtime::blocking::task::BlockingTask<T> as core::future::Future>::poll";
        assert_eq!(idle(&["epoll_wait", worker, task, pool]), Some("tokio"));
        assert_eq!(idle(&["read", "load", "<tokio::runtime::blocking::task::BlockingTask<T>>::poll", pool]), None);
        assert_eq!(idle(&["runtime.futex", "runtime.stopm", "runtime.findRunnable"]), Some("Go"));
        assert_eq!(idle(&["runtime.futex", "runtime.lock2", "main.main"]), None);
        assert_eq!(idle(&[]), None);
    }
}
