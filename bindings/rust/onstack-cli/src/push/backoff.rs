// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long to wait before the next try.

use std::time::{Duration, SystemTime};

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// A server that asks for more than this is not waited for.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Twice as long each time. Half of it is chance: clients that failed together must not come back together.
pub fn wait(tried: u32) -> Duration {
    let whole = FIRST.saturating_mul(1 << tried.min(16)).min(LONGEST);
    whole.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// What `Retry-After` says: seconds, or a date (RFC 9110, 10.2.3). A date that has passed means now.
pub fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_vary() {
        for tried in [0, 1, 5, 6, 40, u32::MAX] {
            let most = FIRST.saturating_mul(1 << tried.min(16)).min(LONGEST);
            let waits: Vec<_> = (0..100).map(|_| wait(tried)).collect();
            assert!(waits.iter().all(|wait| (most / 2..=most).contains(wait)), "{tried}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "{tried}: {waits:?}");
        }
        assert_eq!(FIRST.saturating_mul(1 << 6).min(LONGEST), LONGEST);
    }

    #[test]
    fn a_server_says_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:00 GMT", Some(23)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
