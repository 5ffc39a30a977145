// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the handlers and pushers of Go and Rust have the same defaults and texts: both read one list.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ureq::http::HeaderMap;

use crate::handler::Handler;
use crate::options::{HandlerOptions, RATE};
use crate::push::alike::{pauses, Ingest, Reply};
use crate::push::backoff::retry_after;
use crate::push::client::{Client, Kind};
use crate::push::{PushOptions, PushProtocol};
use crate::query::DURATION;

/// The fields of the lines of one kind; nothing where there is no repository around this package, and that is said.
fn lines(kind: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../go/onstackhttp/testdata/alike.txt");
    let Ok(text) = fs::read_to_string(&path) else {
        eprintln!("SKIPPED: the list beside Go's package is not here: defaults and texts were NOT compared");
        return Vec::new();
    };
    let fields = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    let found: Vec<_> = fields.filter(|fields| fields[0] == kind).map(|fields| fields[1..].to_vec()).collect();
    assert!(!found.is_empty(), "no {kind} in {}", path.display());
    found
}

/// `HandlerOptions.MaxRate` as it is called here.
fn in_rust(text: &str) -> String {
    let Some((before, after)) = text.split_once("Options.") else { return text.to_owned() };
    let length = after.find(|c: char| !c.is_alphanumeric()).unwrap_or(after.len());
    let (name, rest) = after.split_at(length);
    let snake = name.char_indices().fold(String::new(), |snake, (at, c)| {
        let gap = if c.is_uppercase() && at > 0 { "_" } else { "" };
        format!("{snake}{gap}{}", c.to_lowercase())
    });
    format!("{before}Options::{snake}{}", in_rust(rest))
}

#[test]
fn defaults() {
    let (handler, push) = (HandlerOptions::new(), PushOptions::new("", ""));
    let seconds = |duration: Duration| duration.as_secs_f64().to_string();
    let (first, longest) = pauses(&push);
    let mut have = vec![
        ("seconds", seconds(DURATION)),
        ("hz", RATE.to_string()),
        ("HandlerOptions::max_duration", seconds(handler.max_duration)),
        ("HandlerOptions::max_rate", handler.max_rate.to_string()),
        ("HandlerOptions::max_concurrent", handler.max_concurrent.to_string()),
        ("first pause", seconds(first)),
        ("longest pause", seconds(longest)),
    ];
    have.extend(push.numbers());
    let listed = lines("default");
    for fields in &listed {
        let name = in_rust(&fields[0]);
        let value = have.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        assert_eq!(value, Some(&fields[1]), "{name}");
    }
    assert!(listed.is_empty() || listed.len() == have.len());
}

#[tokio::test]
async fn queries() {
    use http_body_util::BodyExt;
    for fields in lines("ask") {
        let request = http::Request::get(format!("/{}", fields[0])).body(()).unwrap();
        let answer = Handler::new().answer(&request).await;
        assert_eq!(answer.status().as_str(), fields[1], "{fields:?}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(String::from_utf8_lossy(&body), in_rust(&fields[2]) + "\n");
    }
}

#[test]
fn answers() {
    let profile = onstack_profile::Profile::from_folded("f 1\n").unwrap();
    for (kind, protocol) in [("answer", PushProtocol::Ingest), ("otlp answer", PushProtocol::Otlp)] {
        for fields in lines(kind) {
            let (status, words) = (fields[0].clone(), fields[1].clone());
            let server = Ingest::new(move |_| Reply::Say(status.clone(), String::new(), words.clone()));
            let Ok(target) = protocol.target(&server.url(), "test", &Default::default()) else { panic!("no target") };
            let parcel = target.pack(profile.clone(), None, SystemTime::now()).unwrap();
            let client = Client::new(target, HeaderMap::new(), Duration::from_secs(60)).unwrap();
            let failure = client.attempt(&parcel).unwrap_err();
            assert_eq!(matches!(failure.kind, Kind::Passing(_)), fields[2] == "retry", "{kind} {fields:?}");
            assert!(failure.text.starts_with(&format!("{} ", fields[0])), "{}", failure.text);
            assert!(failure.text.ends_with(&format!(": {}", fields[1])), "{}", failure.text);
        }
    }
    for fields in lines("after") {
        assert_eq!(retry_after(&fields[0], SystemTime::now()).as_secs().to_string(), fields[1], "{fields:?}");
    }
}
