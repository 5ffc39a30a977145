// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of a profile on a terminal: numbers; and names, which come from files that anybody made, where a terminal obeys some
//! characters.

use std::fmt::{self, Write};

/// Shows the text on one line: what ends a line, moves the cursor, or turns the direction of writing is written as `\u{1b}`.
pub struct Plain<'a>(pub &'a str);

/// Control characters, other ends of lines, and marks that order the text behind them anew.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
}

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_obeyed) {
            f.write_str(&rest[..at])?;
            let c = rest[at..].chars().next().unwrap_or_default();
            write!(f, "{}", c.escape_unicode())?;
            rest = &rest[at + c.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// A number of that unit, for people.
pub fn amount(value: i64, unit: &str) -> String {
    let float = value as f64;
    match unit {
        "nanoseconds" if value.unsigned_abs() >= 1_000_000_000 => format!("{:.2}s", float / 1e9),
        "nanoseconds" => format!("{:.2}ms", float / 1e6),
        "count" | "" => value.to_string(),
        "bytes" if value.unsigned_abs() >= 1 << 20 => format!("{:.2}MiB", float / f64::from(1 << 20)),
        "bytes" => format!("{:.2}KiB", float / 1024.0),
        unit => format!("{value}{}", Plain(unit)),
    }
}

/// The same as text.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let _ = write!(shown, "{}", Plain(text));
    shown
}

/// Values of one unit and their sum.
pub(crate) struct Amount<'a> {
    pub(crate) unit: &'a str,
    pub(crate) total: i64,
}

impl Amount<'_> {
    /// 0 to 1; 0 for an empty profile.
    pub(crate) fn share(&self, value: i64) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            value as f64 / self.total as f64
        }
    }

    pub(crate) fn text(&self, value: i64) -> String {
        amount(value, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_terminal_has_nothing_to_obey() {
        assert_eq!(plain("core::ops::Fn<(é, 名)>"), "core::ops::Fn<(é, 名)>");
        assert_eq!(
            plain("\u{1b}[2Ja\nb\r\u{9b}c\u{202e}\u{7f}\0"),
            "\\u{1b}[2Ja\\u{a}b\\u{d}\\u{9b}c\\u{202e}\\u{7f}\\u{0}"
        );
    }
}
