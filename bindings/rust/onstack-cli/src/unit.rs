// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of two profiles for people, in the words of the library's tables.

use onstack::plain::Plain;

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

/// A change, which says so where it is an increase.
pub fn signed(value: i64, unit: &str) -> String {
    let sign = if value > 0 { "+" } else { "" };
    format!("{sign}{}", amount(value, unit))
}

/// To the nearest integer; a factor of one changes nothing, where a float would lose the last digits.
pub fn scaled(value: i64, factor: f64) -> i64 {
    if factor == 1.0 {
        return value;
    }
    (value as f64 * factor).round() as i64
}
