// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes that a page has its data in: numbers of seven bits a byte, and texts behind their lengths. `decode.js` reads them.

use std::io::Write;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use flate2::write::GzEncoder;
use flate2::Compression;
use onstack_profile::Plain;

#[derive(Default)]
pub struct Bytes {
    bytes: Vec<u8>,
}

impl Bytes {
    pub fn number(&mut self, mut value: u64) {
        while value >= 128 {
            self.bytes.push(value as u8 | 128);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Small where the value is near zero, on either side.
    pub fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    /// Without what turns the direction of writing or ends a line.
    pub fn text(&mut self, text: &str) {
        let text = Plain(text).to_string();
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// How many, and then each.
    pub fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        self.number(items.len() as u64);
        items.for_each(|item| write(self, item));
    }

    /// Compressed, in letters that mean nothing to HTML.
    pub fn packed(&self) -> String {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        // A vector takes all.
        let written = encoder.write_all(&self.bytes).and_then(|()| encoder.finish());
        STANDARD.encode(written.unwrap_or_default())
    }
}
