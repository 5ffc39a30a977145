// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of two profiles for people, in the words of the library's tables.

pub use onstack_profile::amount;

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
