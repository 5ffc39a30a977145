// SPDX-License-Identifier: MIT OR Apache-2.0
//! When and how often.

use std::ffi::c_int;
use std::time::{Duration, SystemTime};

/// When the samples of a report were taken, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportTiming {
    /// Ticks a second of the session's clock.
    pub frequency: c_int,
    /// When the samples began.
    pub start_time: SystemTime,
    /// How long they were taken.
    pub duration: Duration,
}

impl Default for ReportTiming {
    fn default() -> Self {
        Self { frequency: 1, start_time: SystemTime::UNIX_EPOCH, duration: Duration::ZERO }
    }
}
