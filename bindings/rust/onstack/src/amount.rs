// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of a profile for people.

use crate::plain::Plain;

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
        let value_f = value as f64;
        match self.unit {
            "nanoseconds" if value.unsigned_abs() >= 1_000_000_000 => format!("{:.2}s", value_f / 1e9),
            "nanoseconds" => format!("{:.2}ms", value_f / 1e6),
            "count" | "" => value.to_string(),
            "bytes" if value.unsigned_abs() >= 1 << 20 => format!("{:.2}MiB", value_f / f64::from(1 << 20)),
            "bytes" => format!("{:.2}KiB", value_f / 1024.0),
            unit => format!("{value}{}", Plain(unit)),
        }
    }
}
