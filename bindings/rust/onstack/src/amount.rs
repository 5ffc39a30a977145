// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of a profile for people.

use crate::plain::amount;

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
