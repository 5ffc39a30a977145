// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chosen fields of a span, as texts.

use std::error::Error;
use std::fmt::{self, Write};

use onstack::label::Labels;
use tracing_core::field::{Field, Visit};

/// Of a value; a sample has room for as much of all labels together.
const LONGEST: usize = 256;
const CUT: &str = "...";

/// A field, and the key of its label.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) field: String,
    pub(crate) key: String,
}

/// Collects the fields that are chosen.
pub(crate) struct Values<'a> {
    chosen: &'a [Chosen],
    pairs: Vec<(&'a str, String)>,
}

impl<'a> Values<'a> {
    pub(crate) fn of(chosen: &'a [Chosen]) -> Self {
        Self { chosen, pairs: Vec::new() }
    }

    pub(crate) fn add(&mut self, key: &'a str, value: fmt::Arguments<'_>) {
        let mut text = Text(String::new());
        // An error is the end of what is wanted.
        let _ = text.write_fmt(value);
        self.pairs.push((key, text.0));
    }

    /// Over those of the parent, if any.
    pub(crate) fn labels(self, outer: Option<&Labels>) -> Option<Labels> {
        if self.pairs.is_empty() {
            return outer.cloned();
        }
        let over =
            |labels: Labels, outer: Option<&Labels>| outer.map_or(Ok(labels.clone()), |outer| labels.over(outer));
        let all = Labels::new(self.pairs.iter().map(|(key, value)| (key, value))).and_then(|own| over(own, outer));
        // Too long together, for want of anything else: one over the other, what has no room is marked in samples.
        all.ok().or_else(|| {
            let one = |(key, value): &(&str, String)| Labels::new([(key, value)]).ok();
            let add = |outer: Option<Labels>, own: Labels| over(own, outer.as_ref()).ok();
            self.pairs.iter().filter_map(one).fold(outer.cloned(), add)
        })
    }
}

impl Visit for Values<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(chosen) = self.chosen.iter().find(|chosen| chosen.field == field.name()) {
            self.add(&chosen.key, format_args!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// A text that ends where a label must.
struct Text(String);

impl Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for character in more.chars() {
            // A NUL ends texts of the core.
            let character = if character == '\0' { char::REPLACEMENT_CHARACTER } else { character };
            if self.0.len() + character.len_utf8() > LONGEST {
                let mut end = LONGEST - CUT.len();
                while !self.0.is_char_boundary(end) {
                    end -= 1;
                }
                self.0.truncate(end);
                self.0.push_str(CUT);
                return Err(fmt::Error);
            }
            self.0.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> String {
        let mut values = Values::of(&[]);
        values.add("key", format_args!("{value}"));
        values.pairs.remove(0).1
    }

    #[test]
    fn texts_are_cut_at_characters_and_have_no_nul() {
        assert_eq!(text(""), "");
        assert_eq!(text("a\0b"), "a\u{fffd}b");
        let longest = "x".repeat(LONGEST);
        assert_eq!(text(&longest), longest);
        assert_eq!(text(&format!("{longest}x")), format!("{}...", "x".repeat(LONGEST - 3)));
        let wide = text(&"€".repeat(LONGEST));
        assert!(wide.len() <= LONGEST && wide.ends_with("€..."), "{wide}");
    }

    #[test]
    fn what_is_too_long_together_is_kept_as_far_as_it_goes() {
        let keys: Vec<String> = (0..40).map(|number| format!("key{number}")).collect();
        let mut values = Values::of(&[]);
        keys.iter().for_each(|key| values.add(key, format_args!("{}", "x".repeat(200))));
        let outer = Labels::new([("outer", "o")]).unwrap();
        let labels = values.labels(Some(&outer)).unwrap();
        assert!((10..40).contains(&labels.iter().count()), "{labels:?}");
        assert_eq!(labels.iter().next().unwrap().0, "key39");
    }
}
