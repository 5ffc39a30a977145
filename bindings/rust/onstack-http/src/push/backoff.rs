// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long to wait before the next try.

use std::time::{Duration, SystemTime};

/// A server that says more is asked again after this time: Pyroscope refuses what is older.
const MOST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Twice as long each time. Half of it is chance: clients that failed together must not come back together.
pub struct Backoff {
    least: Duration,
    most: Duration,
    last: Duration,
}

impl Backoff {
    /// From `least` to `most`.
    pub fn new(least: Duration, most: Duration) -> Self {
        Self { least, most, last: Duration::ZERO }
    }

    /// After one more failure; `asked`: what the server wants at least.
    pub fn next(&mut self, asked: Duration) -> Duration {
        self.last = (self.last * 2).clamp(self.least, self.most);
        let wait = self.last.mul_f64(0.5 + fastrand::f64() / 2.0);
        if asked.is_zero() {
            return wait;
        }
        wait.max(asked + self.least.mul_f64(fastrand::f64()))
    }

    /// After a success.
    pub fn reset(&mut self) {
        self.last = Duration::ZERO;
    }
}

/// What `Retry-After` says: seconds, or a date (RFC 9110, 10.2.3). A date that has passed means now; at most an hour.
pub fn retry_after(text: &str, now: SystemTime) -> Duration {
    let text = text.trim();
    let seconds = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let date = || httpdate::parse_http_date(text).ok()?.duration_since(now).ok();
    seconds.map(Duration::from_secs).or_else(date).unwrap_or_default().min(MOST_RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_vary() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 10 * second);
        for most in [1, 2, 4, 8, 10, 10] {
            let (wait, most) = (backoff.next(Duration::ZERO), most * second);
            assert!((most / 2..=most).contains(&wait), "{wait:?} of {most:?}");
        }
        let asked = backoff.next(60 * second);
        assert!((60 * second..=61 * second).contains(&asked), "{asked:?}");
        let firsts: Vec<_> = (0..100)
            .map(|_| {
                backoff.reset();
                backoff.next(Duration::ZERO)
            })
            .collect();
        assert!(firsts.iter().all(|wait| *wait <= second) && firsts.iter().any(|wait| *wait != firsts[0]));
    }

    #[test]
    fn a_server_says_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("120", 120),
            (" 0 ", 0),
            ("99999999", 3600),
            ("99999999999999999999999", 0),
            ("Sun, 06 Nov 1994 08:50:00 GMT", 23),
            ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
            ("Sun, 06 Nov 9994 08:00:00 GMT", 3600),
            ("soon", 0),
            ("-1", 0),
            ("+1", 0),
            ("1.5", 0),
            ("", 0),
        ] {
            assert_eq!(retry_after(text, now), Duration::from_secs(seconds), "{text}");
        }
    }
}
