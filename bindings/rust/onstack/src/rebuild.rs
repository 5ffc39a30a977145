// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a pprof message out of stacks whose names a program may have changed.

use std::collections::HashMap;

use crate::frames::{Frames, Symbol};
use crate::message::{Function, Label, Line, Location, ProfileMessage, Sample};

/// The mappings of places whose address lies in several: a library was loaded where another one had been.
pub(crate) type Shared = HashMap<(u64, Vec<Symbol>), u64>;

/// A place is told from others by its address and by all that is said of it.
type Place = (u64, Vec<(u64, i64)>);

/// Stands for the stack of a sample whose frames the program took out: profile servers refuse a sample without any.
const NO_FRAMES: &str = "[no frames]";

pub(crate) struct Rebuild<'a> {
    message: ProfileMessage,
    strings: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    places: HashMap<Place, u64>,
    shared: &'a Shared,
}

impl<'a> Rebuild<'a> {
    /// `frame`: what the message has beside its stacks; `shared`: the mappings of places whose address lies in several.
    pub(crate) fn new(frame: &ProfileMessage, shared: &'a Shared) -> Self {
        let message = frame.clone();
        let strings =
            message.string_table.iter().enumerate().map(|(index, text)| (text.clone(), index as i64)).collect();
        Self { message, strings, functions: HashMap::new(), places: HashMap::new(), shared }
    }

    /// Puts stacks of the same weight into an order that does not depend on where the table keeps them.
    pub(crate) fn key(&self, frames: &Frames) -> Vec<usize> {
        frames.frames.iter().filter_map(|frame| frame.first()?.addr).map(|address| address as usize).collect()
    }

    pub(crate) fn add(&mut self, frames: &Frames, ticks: i64) {
        let mut location_id: Vec<_> = frames.frames.iter().map(|frame| self.place(frame)).collect();
        if location_id.is_empty() {
            let name = Some(NO_FRAMES.as_bytes().to_vec());
            location_id.push(self.place(&[Symbol { name, addr: None, lineno: None, filename: None }]));
        }
        let mut label = Vec::with_capacity(2 + frames.labels.len());
        if !frames.thread_name.is_empty() {
            label.push(Label { key: self.text("thread"), str: self.text(&frames.thread_name), ..Label::default() });
        }
        if frames.thread_id != 0 {
            let num = i64::try_from(frames.thread_id).unwrap_or(i64::MAX);
            label.push(Label { key: self.text("thread_id"), num, ..Label::default() });
        }
        for (key, value) in frames.labels.iter().filter(|(key, _)| !key.is_empty()) {
            label.push(Label { key: self.text(key), str: self.text(value), ..Label::default() });
        }
        let value = vec![ticks, ticks.saturating_mul(self.message.period)];
        self.message.sample.push(Sample { location_id, value, label, ..Sample::default() });
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.strings.get(text) {
            return index;
        }
        let index = self.message.string_table.len() as i64;
        self.message.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), index);
        index
    }

    fn function(&mut self, symbol: &Symbol) -> Option<u64> {
        let name = self.text(&String::from_utf8_lossy(symbol.name.as_deref()?));
        let file = symbol.filename.as_deref().map_or(0, |path| self.text(&path.to_string_lossy()));
        let next = self.message.function.len() as u64 + 1;
        let id = *self.functions.entry((name, file)).or_insert(next);
        if id == next {
            self.message.function.push(Function { id, name, system_name: name, filename: file, start_line: 0 });
        }
        Some(id)
    }

    fn place(&mut self, frame: &[Symbol]) -> u64 {
        let address = frame.first().and_then(|symbol| symbol.addr).map_or(0, |address| address as usize as u64);
        let lines: Vec<_> =
            frame.iter().filter_map(|symbol| Some((self.function(symbol)?, i64::from(symbol.lineno())))).collect();
        let next = self.message.location.len() as u64 + 1;
        let id = *self.places.entry((address, lines.clone())).or_insert(next);
        if id == next {
            let holding =
                || self.message.mapping.iter().find(|mapping| mapping.holds(address)).map(|mapping| mapping.id);
            // Of most programs there are none.
            let shared = if self.shared.is_empty() { None } else { self.shared.get(&(address, frame.to_vec())) };
            let mapping_id = shared.copied().or_else(holding).unwrap_or(0);
            let line = lines.into_iter().map(|(function_id, line)| Line { function_id, line, column: 0 }).collect();
            self.message.location.push(Location { id, mapping_id, address, line, is_folded: false });
        }
        id
    }

    pub(crate) fn finish(self) -> ProfileMessage {
        self.message
    }
}
