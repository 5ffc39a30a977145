// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages under way, and tables of them.

use std::collections::HashMap;

use crate::wire::{put_bytes, put_number};

/// An encoded message; fields in any order.
#[derive(Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    /// 0 is the default and is left out.
    pub(super) fn number(&mut self, tag: u32, number: u64) {
        if number != 0 {
            self.chosen(tag, number);
        }
    }

    /// A number that is there also as 0, where that is not the default.
    pub(super) fn chosen(&mut self, tag: u32, number: u64) {
        put_number(&mut self.0, u64::from(tag) << 3);
        put_number(&mut self.0, number);
    }

    /// A fixed64; 0 is left out.
    pub(super) fn fixed(&mut self, tag: u32, number: u64) {
        if number != 0 {
            put_number(&mut self.0, u64::from(tag) << 3 | 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        put_bytes(&mut self.0, tag, bytes);
    }

    pub(super) fn text(&mut self, tag: u32, text: &str) {
        self.bytes(tag, text.as_bytes());
    }

    pub(super) fn message(&mut self, tag: u32, message: &Out) {
        self.bytes(tag, &message.0);
    }

    /// A list of numbers; none is left out.
    pub(super) fn packed(&mut self, tag: u32, numbers: impl IntoIterator<Item = u64>) {
        let mut packed = Vec::new();
        numbers.into_iter().for_each(|number| put_number(&mut packed, number));
        if !packed.is_empty() {
            self.bytes(tag, &packed);
        }
    }
}

/// Encoded messages, each once, by number. Number 0 is the one without a field, which means none.
pub(super) struct Table {
    numbers: HashMap<Vec<u8>, u64>,
    entries: Vec<Vec<u8>>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { numbers: HashMap::from([(Vec::new(), 0)]), entries: vec![Vec::new()] }
    }

    pub(super) fn number(&mut self, entry: &[u8]) -> u64 {
        if let Some(&number) = self.numbers.get(entry) {
            return number;
        }
        let number = self.entries.len() as u64;
        self.entries.push(entry.to_vec());
        self.numbers.insert(entry.to_vec(), number);
        number
    }

    pub(super) fn put(&self, tag: u32, out: &mut Out) {
        self.entries.iter().for_each(|entry| out.bytes(tag, entry));
    }
}
