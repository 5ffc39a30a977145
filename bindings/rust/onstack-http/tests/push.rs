// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pushers of this process's own profiles.
#![cfg(all(feature = "axum", feature = "hyper", feature = "push"))]

mod common;
#[path = "common/service.rs"]
mod service;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{eventually, threads, Ingest, Reply, PATIENCE};
use onstack::{thread_label, ProfilerGuard};
use onstack_http::{Error, Handler, PushEvent, PushOptions, PushOutcome, PushProtocol, Pusher};
use onstack_profile::{Profile, Profiled};
use service::{alone, get, serve, Burning};

fn options(url: &str) -> PushOptions {
    PushOptions::new(url, "shop/cart-2").interval(Duration::from_secs(1)).flush_timeout(PATIENCE)
}

fn no_report(event: &PushEvent) {
    panic!("{} {}", event.outcome, event.error);
}

fn shows_the_work(profile: &Profile) -> bool {
    profile.top().entries.iter().any(|entry| entry.name.ends_with("burn_of_the_test"))
}

#[test]
fn real_profiles_arrive() {
    let _alone = alone();
    let _burning = Burning::begin();
    let server = Ingest::new(|_| Reply::Take);
    let options = options(&server.url())
        .label("version", "1.2")
        .label("env", "a test")
        .header("X-Scope-OrgID", "me")
        .basic_auth("me", "hunter2")
        .profile(|builder| builder.frequency(200).labels(&[("instance", "one")]))
        .report(no_report);
    assert!(!format!("{options:?}").contains("hunter2"));
    let pusher = Pusher::start(options).unwrap();
    eventually("no three profiles", || pusher.stats().sent >= 3);
    // A thread that sends has that name until it has its own.
    eventually("not one thread", || threads("onstack-push") == 1);
    let stats = pusher.stop();
    let taken = server.taken();
    assert_eq!(taken.len() as u64, stats.sent);
    assert_eq!(stats.taken, stats.sent + stats.empty, "{stats:?}");
    assert!(taken.iter().any(|request| shows_the_work(&request.profile)));
    for request in &taken {
        assert_eq!(request.query["name"], "shop/cart-2{env=a test,version=1.2}");
        assert_eq!(request.query["spyName"], "onstack");
        assert_eq!(request.headers["authorization"], "Basic bWU6aHVudGVyMg==");
        assert_eq!(request.headers["x-scope-orgid"], "me");
        let message = request.profile.message();
        assert_eq!(message.period, 5_000_000);
        let text = |index: i64| message.string_table[index as usize].as_str();
        for sample in &message.sample {
            assert!(sample.label.iter().all(|label| label.num == 0), "Pyroscope drops numbers");
            assert!(sample.label.iter().any(|label| (text(label.key), text(label.str)) == ("instance", "one")));
        }
    }
    for two in taken.windows(2) {
        let end = two[0].profile.start().unwrap() + two[0].profile.duration();
        assert!(
            two[1].profile.start().unwrap() + Duration::from_millis(1) >= end,
            "a profile begins before the last ends"
        );
    }
    eventually("threads are left", || threads("onstack") == 0);
}

#[test]
fn real_profiles_arrive_at_a_collector() {
    let _alone = alone();
    let _burning = Burning::begin();
    let server = Ingest::new(|_| Reply::Take);
    let options = PushOptions::new(server.url(), "a shop")
        .protocol(PushProtocol::Otlp)
        .interval(Duration::from_secs(1))
        .flush_timeout(PATIENCE)
        .label("deployment.environment.name", "a, test")
        .header("X-Scope-OrgID", "me")
        .profile(|builder| builder.frequency(200))
        .report(no_report);
    let pusher = Pusher::start(options).unwrap();
    eventually("no three profiles", || pusher.stats().sent >= 3);
    let stats = pusher.stop();
    let exports = server.exports();
    assert_eq!(exports.len() as u64, stats.sent);
    assert_eq!(stats.taken, stats.sent + stats.empty, "{stats:?}");
    assert!(exports.iter().any(|export| export.holds("burn_of_the_test")));
    for export in &exports {
        for text in ["service.name", "a shop", "deployment.environment.name", "a, test"] {
            assert!(export.holds(text), "{text} is not there");
        }
        assert_eq!(export.headers["x-scope-orgid"], "me");
    }
    eventually("threads are left", || threads("onstack") == 0);
}

/// What was sampled since the last interval goes out at the end, and a drop is an end.
#[test]
fn the_last_profile_is_sent() {
    let _alone = alone();
    let server = Ingest::new(|_| Reply::Take);
    let pusher = Pusher::start(options(&server.url()).interval(Duration::from_secs(3600)).report(no_report)).unwrap();
    let burning = Burning::begin();
    std::thread::sleep(Duration::from_millis(700));
    drop(burning);
    assert_eq!(pusher.stats().taken, 0);
    drop(pusher);
    let taken = server.taken();
    assert!(taken.len() == 1 && shows_the_work(&taken[0].profile), "{}", taken.len());
    eventually("threads are left", || threads("onstack") == 0);
}

/// Two pushers, a guard and the handler are sessions like others.
#[test]
fn pushers_disturb_nobody() {
    let _alone = alone();
    let _burning = Burning::begin();
    let server = Ingest::new(|_| Reply::Take);
    let start =
        |hertz| Pusher::start(options(&server.url()).profile(move |b| b.frequency(hertz)).report(no_report)).unwrap();
    let (one, two) = (start(19), start(200));
    let guard = ProfilerGuard::new(99).unwrap();
    let answer = get(serve(Handler::new()), "/?seconds=1");
    assert!(shows_the_work(&answer.profile()));
    let own = guard.profile().unwrap();
    assert!(shows_the_work(&own));
    common::pprof::read(&own.to_bytes());
    eventually("not both are sent", || one.stats().sent > 0 && two.stats().sent > 0);
    for stats in [one.stop(), two.stop()] {
        assert_eq!(stats.sent + stats.empty, stats.taken);
    }
}

/// Labels come and go in hundreds of threads while the server fails every second time: the books close, and what came holds
/// as much as was sampled.
#[test]
fn a_burst_with_labels_is_counted() {
    let _alone = alone();
    let server = Ingest::new(|number| if number % 2 == 0 { Reply::Take } else { Reply::HangUp });
    let events: Arc<Mutex<Vec<PushOutcome>>> = Arc::default();
    let told = events.clone();
    let options = options(&server.url())
        .profile(|builder| builder.frequency(250).label_bytes(64).thread_names(false))
        .report(move |event| told.lock().unwrap().push(event.outcome));
    let pusher = Pusher::start(options).unwrap();
    for _ in 0..10 {
        let request = |number: u32| {
            move || {
                let _label = thread_label("request", &number.to_string()).unwrap();
                (0..100_000u64).fold(number.into(), |x: u64, _| std::hint::black_box(x.wrapping_mul(7)))
            }
        };
        let requests: Vec<_> = (0..100).map(|number| std::thread::spawn(request(number))).collect();
        assert!(requests.into_iter().all(|request| request.join().is_ok()));
    }
    let _burning = Burning::begin();
    eventually("nothing is sent", || pusher.stats().sent >= 2);
    let stats = pusher.stop();
    assert_eq!(stats.taken, stats.sent + stats.empty, "{stats:?}");
    assert_eq!(events.lock().unwrap().len() as u64, stats.retries);
    let taken = server.taken();
    assert_eq!(taken.len() as u64, stats.sent);
    let labelled = taken.iter().filter(|request| request.profile.message().string_table.iter().any(|s| s == "request"));
    assert!(labelled.count() > 0);
}

#[test]
fn what_cannot_begin_is_named_and_leaves_nothing() {
    let _alone = alone();
    let good = || PushOptions::new("http://127.0.0.1:1", "test");
    let collector = |service| PushOptions::new("http://127.0.0.1:1", service).protocol(PushProtocol::Otlp);
    let zero = Duration::ZERO;
    for (options, text) in [
        (PushOptions::new("", "test"), "PushOptions::url: give"),
        (PushOptions::new("ftp://localhost/", "test"), "PushOptions::url: give"),
        (PushOptions::new("http://me:hunter2@localhost/", "test"), "PushOptions::url: leave user and password out"),
        (PushOptions::new("http://localhost", "a b"), "PushOptions::service: \"a b\": give a name"),
        (good().label("git-ref", "x"), "PushOptions::label: name \"git-ref\": give"),
        (good().header("Authorization", "hunter2\n"), "PushOptions::header: the value of Authorization"),
        (collector(""), "PushOptions::service: \"\": give a name"),
        (collector("a").label("service.name", "b"), "PushOptions::label: name \"service.name\": give one"),
        (collector("a").header("OTLP-Profiles-Development-Version", "2"), "PushOptions::header: OTLP-Profiles"),
        (PushOptions::new("localhost:4318", "a").protocol(PushProtocol::Otlp), "PushOptions::url: give"),
        (good().interval(Duration::from_millis(1)), "PushOptions::interval: 1ms: give 1s or more"),
        (good().timeout(zero), "PushOptions::timeout: 0ns: give 1ms or more"),
        (good().flush_timeout(zero), "PushOptions::flush_timeout: 0ns"),
        (good().max_waiting(0), "PushOptions::max_waiting: 0: give a number from 1 on"),
        (good().max_waiting_bytes(0), "PushOptions::max_waiting_bytes: 0"),
    ] {
        let error = Pusher::start(options).unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, Error::Option { .. }) && told.starts_with(text) && !told.contains("hunter2"), "{told}");
    }
    let wrong = Pusher::start(good().profile(|builder| builder.frequency(0)));
    assert!(matches!(wrong, Err(Error::Profile(onstack::Error::Frequency))));
    let own: Vec<_> = (0..8).map(|_| ProfilerGuard::new(99).unwrap()).collect();
    assert!(matches!(Pusher::start(good()), Err(Error::Profile(onstack::Error::Sessions))));
    drop(own);
    eventually("threads are left", || threads("onstack") == 0);
}
