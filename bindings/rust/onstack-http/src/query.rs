// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a request's query asks for.

use std::borrow::Cow;
use std::time::Duration;

use onstack::{Clock, ProfilerGuardBuilder};

use crate::options::HandlerOptions;

/// What is profiled without `?seconds`, as in Go's net/http/pprof.
pub(crate) const DURATION: Duration = Duration::from_secs(30);

pub(crate) struct Asked {
    pub(crate) duration: Duration,
    hertz: Option<i32>,
    clock: Option<Clock>,
    timeline: bool,
}

impl Asked {
    /// The error is the text of the answer.
    pub(crate) fn parse(query: &str, options: &HandlerOptions) -> Result<Self, String> {
        let value =
            |name: &str| form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|pair| pair.1);
        let seconds = value("seconds").map(|text| seconds(&text, options)).transpose()?;
        let hertz = value("hz").map(|text| hertz(&text, options)).transpose()?;
        let clock = value("clock").map(clock).transpose()?;
        let timeline = value("timeline").map(timeline).transpose()?.unwrap_or(false);
        Ok(Self { duration: seconds.unwrap_or(DURATION.min(options.max_duration)), hertz, clock, timeline })
    }

    pub(crate) fn apply(&self, options: &HandlerOptions) -> ProfilerGuardBuilder {
        let mut builder = options.builder(self.clock);
        if let Some(hertz) = self.hertz {
            builder = builder.frequency(hertz);
        }
        if let Some(clock) = self.clock {
            builder = builder.clock(clock);
        }
        if self.timeline {
            builder = builder.timeline(true);
        }
        builder
    }
}

fn seconds(text: &str, options: &HandlerOptions) -> Result<Duration, String> {
    let most = options.max_duration.as_secs_f64();
    match text.parse() {
        // What is no number is in no range.
        Ok(seconds) if seconds > 0.0 && seconds <= most => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "onstack: seconds={text:?}: give a number above 0 and up to {most}, HandlerOptions::max_duration"
        )),
    }
}

fn hertz(text: &str, options: &HandlerOptions) -> Result<i32, String> {
    let most = options.max_rate;
    match text.parse() {
        Ok(hertz) if (1..=most).contains(&hertz) => Ok(hertz),
        _ => Err(format!("onstack: hz={text:?}: give a whole number from 1 to {most}, HandlerOptions::max_rate")),
    }
}

fn clock(text: Cow<'_, str>) -> Result<Clock, String> {
    match &*text {
        "cpu" => Ok(Clock::Cpu),
        "wall" => Ok(Clock::Wall),
        "wall-signal" => Ok(Clock::WallSignal),
        _ => Err(format!("onstack: clock={text:?}: give cpu, wall or wall-signal")),
    }
}

fn timeline(text: Cow<'_, str>) -> Result<bool, String> {
    match &*text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("onstack: timeline={text:?}: give 1 to keep the times of samples, or 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_query_leaves_out_is_within_the_limits() {
        let asked = Asked::parse("", &HandlerOptions::new()).unwrap();
        assert!(asked.duration == DURATION && asked.hertz.is_none() && asked.clock.is_none() && !asked.timeline);
        let short = HandlerOptions::new().max_duration(Duration::from_millis(500));
        assert_eq!(Asked::parse("", &short).unwrap().duration, Duration::from_millis(500));
        let refusal = Asked::parse("seconds=0.6", &short).err().unwrap();
        assert!(refusal.contains("up to 0.5, HandlerOptions::max_duration"), "{refusal}");
    }

    #[test]
    fn queries_are_decoded_and_the_first_value_counts() {
        let asked =
            Asked::parse("seconds=%31%2E5&hz=200&hz=x&clock=wall&timeline=1&other=1", &HandlerOptions::new()).unwrap();
        assert_eq!(
            (asked.duration, asked.hertz, asked.clock, asked.timeline),
            (Duration::from_millis(1500), Some(200), Some(Clock::Wall), true)
        );
    }

    /// Whatever stands there is refused with a text, or asks for a time within bounds.
    #[test]
    fn no_query_asks_for_more_than_is_allowed() {
        let options = HandlerOptions::new();
        for number in
            ["1e-300", "+Inf", "-0", "300.0000001", "300", "1e300", "0x10", "", " 1", "1_0", "NaN", "5.", ".5"]
        {
            match Asked::parse(&format!("seconds={number}"), &options) {
                Ok(asked) => assert!(asked.duration <= options.max_duration, "{number}"),
                Err(text) => assert!(text.starts_with("onstack: seconds="), "{text}"),
            }
        }
        for query in ["%zz", "a;b", "&&=", "=", "seconds", "hz=%ff"] {
            if let Err(text) = Asked::parse(query, &options) {
                assert!(text.starts_with("onstack: "), "{text}");
            }
        }
    }
}
