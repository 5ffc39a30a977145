// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pyroscope's ingest requests, which Grafana Alloy and Grafana Cloud take too.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use onstack_profile::Profile;

use super::target::{self, Parcel, Target};

/// A server, and the name of what is sent there.
pub struct Pyroscope {
    endpoint: String,
    name: String,
}

impl Pyroscope {
    /// Of values that the functions below have checked.
    pub fn new(endpoint: String, service: &str, labels: &BTreeMap<String, String>) -> Self {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self { endpoint, name: format!("{service}{{{}}}", labels.join(",")) }
    }
}

impl Target for Pyroscope {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The body is the profile as it is: with `format=pprof` the server looks for no form around it. It refuses the whole
    /// profile for one label of a sample that has another name than it takes.
    fn pack(&self, mut profile: Profile, original: Option<Vec<u8>>, ended: SystemTime) -> onstack::Result<Parcel> {
        let renamed = profile.rename_labels(label_name);
        let body = match original {
            Some(bytes) if !renamed => bytes,
            _ => {
                let mut bytes = Vec::new();
                profile.write_pprof(&mut bytes)?;
                bytes.shrink_to_fit();
                bytes
            }
        };
        let (from, until) = interval(profile.start(), profile.duration(), ended);
        let query = vec![
            ("name", self.name.clone()),
            ("from", from.to_string()),
            ("until", until.to_string()),
            ("spyName", "onstack".into()),
            ("format", "pprof".into()),
        ];
        Ok(Parcel { query, content_type: "application/octet-stream", body })
    }

    /// It answers 422 also when it is only busy: when a part of it cannot be reached, and, in versions before 2026, over its
    /// rate limit (grafana/pyroscope-go#63). The reason stands in the text then.
    fn passes(&self, status: u16, words: &str) -> bool {
        const PASSING: [&str; 5] = ["resource_exhausted", "unavailable", "deadline_exceeded", "canceled", "aborted"];
        let mut reasons = words.match_indices("failed ").map(|(at, failed)| &words[at + failed.len()..]);
        let is_one = |reason: &str| PASSING.contains(&reason.split(|c| !is_word(c)).next().unwrap_or_default());
        matches!(status, 408 | 429 | 500..) || status == 422 && reasons.any(is_one)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What requests go to.
///
/// # Errors
/// A text that goes on behind the option's name.
pub fn endpoint(url: &str) -> Result<String, String> {
    target::endpoint(url, "/ingest", "http://localhost:4040")
}

/// The server reads `service{name=value,...}` without quotes and escapes: what would end a part of it cannot be said.
///
/// # Errors
/// A text that goes on behind the option's name.
pub fn check_service(service: &str) -> Result<(), String> {
    if service.is_empty() || !service.chars().all(|c| is_word(c) || "-./".contains(c)) {
        return Err(format!("{service:?}: give a name of letters, digits, and any of \"_-./\""));
    }
    Ok(())
}

/// The server sets these itself: a second one makes it refuse the profile, or throw it away in silence.
const SERVERS_LABELS: [&str; 3] = ["service_name", "pyroscope_spy", "profile_id"];

/// A label of all profiles.
///
/// # Errors
/// A text that goes on behind the option's name.
pub fn check_label(name: &str, value: &str) -> Result<(), String> {
    let near = label_name(name);
    if name != near {
        return Err(format!("name {name:?}: give letters, digits and underscores, no digit first; {near:?} would do"));
    }
    if SERVERS_LABELS.contains(&name) || name.starts_with("__") {
        return Err(format!("name {name:?}: the server uses it itself: give another"));
    }
    if value.contains(|c: char| ",}".contains(c) || c.is_control()) {
        return Err(format!("{name}={value:?}: give a value without comma, closing brace and control characters"));
    }
    Ok(())
}

/// The nearest name of letters, digits and underscores that does not begin with a digit.
fn label_name(key: &str) -> String {
    let name: String = key.chars().map(|c| if is_word(c) { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        return format!("_{name}");
    }
    name
}

/// The server wants whole seconds, and more than none of them.
fn interval(start: Option<SystemTime>, duration: Duration, ended: SystemTime) -> (u64, u64) {
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let start = start.map(since).unwrap_or_else(|| since(ended).saturating_sub(duration));
    let end = start.saturating_add(duration);
    let until = end.as_secs().saturating_add(u64::from(end.subsec_nanos() > 0));
    (start.as_secs(), until.max(start.as_secs().saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_or_its_endpoint_may_be_named() {
        for (url, expected) in [
            ("http://localhost:4040", "http://localhost:4040/ingest"),
            ("https://host/", "https://host/ingest"),
            ("https://host/path/", "https://host/path/ingest"),
            ("http://[::1]:4040/ingest", "http://[::1]:4040/ingest"),
        ] {
            assert_eq!(endpoint(url), Ok(expected.to_owned()));
        }
        for url in
            ["", "localhost:4040", "/ingest", "ftp://host", "http://", "http://a:s3cret@host", "http://host/?s3cret"]
        {
            let text = endpoint(url).unwrap_err();
            assert!(!text.contains("s3cret"), "{url}: {text}");
        }
    }

    #[test]
    fn what_the_server_would_read_as_something_else_is_refused() {
        assert!(check_service("team/my-app.cpu_2").is_ok());
        for name in ["", "a{b=c}", "a b", "ä"] {
            assert!(check_service(name).is_err(), "{name}");
        }
        for (name, value) in [("env", "prod"), ("_a1", "x y"), ("url", "a=b{"), ("Zone", "ü")] {
            assert_eq!(check_label(name, value), Ok(()));
        }
        for (name, value, text) in [
            ("", "x", "\"_\" would do"),
            ("1a", "x", "\"_1a\" would do"),
            ("git-ref", "x", "\"git_ref\" would do"),
            ("__name__", "x", "uses it itself"),
            ("service_name", "x", "uses it itself"),
            ("a", "b,c=d", "comma"),
            ("a", "b}", "brace"),
            ("a", "b\nc", "control"),
        ] {
            let refusal = check_label(name, value).unwrap_err();
            assert!(refusal.contains(text), "{refusal}");
        }
    }

    #[test]
    fn intervals_are_whole_seconds_and_never_empty() {
        let at = |seconds: f64| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
        let span = Duration::from_secs_f64;
        for (start, duration, expected) in [
            (Some(at(100.5)), span(10.0), (100, 111)),
            (Some(at(100.0)), span(10.0), (100, 110)),
            (Some(at(100.0)), span(0.0), (100, 101)),
            (None, span(10.0), (990, 1000)),
            (None, span(5000.0), (0, 5000)),
        ] {
            assert_eq!(interval(start, duration, at(1000.0)), expected, "{start:?} {duration:?}");
        }
    }

    #[test]
    fn a_profile_goes_as_it_is_unless_a_label_must_change() {
        let target = Pyroscope::new("http://a/ingest".into(), "app", &BTreeMap::from([("env".into(), "a b".into())]));
        let profile = Profile::from_folded("main;f 3\n").unwrap();
        let parcel = target.pack(profile.clone(), Some(b"original".to_vec()), SystemTime::now()).unwrap();
        assert_eq!(parcel.body, b"original");
        assert_eq!(parcel.query[0], ("name", "app{env=a b}".into()));
        let parcel = target.pack(profile, None, SystemTime::now()).unwrap();
        assert_eq!(Profile::read(&parcel.body[..]).unwrap().top().total, 3);
    }
}
