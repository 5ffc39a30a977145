// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pushers of made-up profiles, which are numbered, with short times; tests/push.rs sends real ones.

#[path = "../../tests/common/mod.rs"]
pub(super) mod common;

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use onstack_profile::Profile;

use super::run::{Run, Source, Times};
use super::{PushEvent, PushOptions, PushOutcome, PushProtocol, PushStats, Pusher};
use common::{eventually, say, Ingest, Reply, PATIENCE};

/// Profiles of one sample, whose value is the profile's number, from 1 on.
struct Numbered {
    taken: Arc<AtomicU64>,
    fails: bool,
    padding: usize,
    stopped: Arc<AtomicBool>,
}

impl Source for Numbered {
    fn take(&mut self) -> onstack::Result<Profile> {
        if self.fails {
            return Err(onstack::Error::Context);
        }
        let number = self.taken.fetch_add(1, Ordering::SeqCst) + 1;
        let mut profile = Profile::from_folded(&format!("f {number}\n")).unwrap();
        profile.add_comment(&(0..self.padding).map(|_| fastrand::alphanumeric()).collect::<String>());
        Ok(profile)
    }

    fn stop(&mut self) -> onstack::Result<()> {
        self.stopped.store(true, Ordering::SeqCst);
        Ok(())
    }
}

struct Setting {
    options: PushOptions,
    times: Times,
    fails: bool,
    padding: usize,
}

struct Pushing {
    pusher: Pusher,
    taken: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
    events: Arc<Mutex<Vec<PushEvent>>>,
}

fn closes(stats: &PushStats) -> bool {
    stats.taken == stats.sent + stats.failed + stats.dropped + stats.empty + stats.waiting
}

fn push(url: &str, change: impl FnOnce(&mut Setting)) -> Pushing {
    let ms = Duration::from_millis;
    let mut setting = Setting {
        options: PushOptions::new(url, "test"),
        times: Times { interval: ms(5), flush: PATIENCE, least: ms(1), most: ms(4) },
        fails: false,
        padding: 0,
    };
    change(&mut setting);
    let Setting { mut options, times, fails, padding } = setting;
    let (taken, stopped, events): (Arc<AtomicU64>, Arc<AtomicBool>, Arc<Mutex<Vec<PushEvent>>>) = Default::default();
    let noted = events.clone();
    if options.report.is_none() {
        options = options.report(move |event| noted.lock().unwrap().push(event.clone()));
    }
    let (client, report) = options.sender().unwrap();
    let source = Box::new(Numbered { taken: taken.clone(), fails, padding, stopped: stopped.clone() });
    let pusher = Pusher::run(times, |events| Run::new(&options, client, report, source, events)).unwrap();
    Pushing { pusher, taken, stopped, events }
}

impl Pushing {
    fn stats(&self) -> PushStats {
        let stats = self.pusher.stats();
        assert!(closes(&stats), "the books do not close: {stats:?}");
        stats
    }

    /// Of the events of a kind whose error holds the text.
    fn count(&self, outcome: PushOutcome, text: &str) -> u64 {
        let events = self.events.lock().unwrap();
        events.iter().filter(|event| event.outcome == outcome && event.error.contains(text)).count() as u64
    }

    /// Nothing waits any more, and what was lost has been told.
    fn end(self) -> (PushStats, Vec<PushEvent>) {
        let stats = self.pusher.stop();
        assert!(stats.waiting == 0 && closes(&stats), "{stats:?}");
        assert!(self.stopped.load(Ordering::SeqCst), "the profile was not stopped");
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        for (outcome, number) in [
            (PushOutcome::Failed, stats.failed),
            (PushOutcome::Dropped, stats.dropped),
            (PushOutcome::Retry, stats.retries),
        ] {
            let told = events.iter().filter(|event| event.outcome == outcome);
            assert_eq!(told.count() as u64, number, "{outcome}: {events:?}");
        }
        assert!(events.iter().all(|event| closes(&event.stats)));
        (stats, events)
    }
}

fn numbers(server: &Ingest) -> Vec<u64> {
    server.taken().iter().map(|request| request.profile.top().total as u64).collect()
}

fn want_all(numbers: &[u64], last: u64) {
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
}

fn many(setting: &mut Setting) {
    setting.options.max_waiting = 1 << 20;
}

/// A server that answers with that until it is told otherwise.
fn away(status: &'static str) -> (Ingest, Arc<AtomicBool>) {
    let away = Arc::new(AtomicBool::new(true));
    let ours = away.clone();
    let answer = move |_| if ours.load(Ordering::SeqCst) { say(status, "", "not yet") } else { Reply::Take };
    (Ingest::new(answer), away)
}

#[test]
fn nothing_is_lost_in_an_outage() {
    let (server, away) = away("503 Service Unavailable");
    let p = push(&server.url(), many);
    eventually("no retries while the server answers 503", || p.stats().retries >= 10);
    let stats = p.stats();
    assert_eq!((stats.sent, stats.failed, stats.dropped), (0, 0, 0), "{stats:?}");
    away.store(false, Ordering::SeqCst);
    eventually("nothing arrives after the outage", || p.stats().sent >= 10);
    assert!(
        p.count(
            PushOutcome::Retry,
            &format!("onstack: push to {}/ingest: 503 Service Unavailable: not yet", server.url())
        ) > 0
    );
    let (stats, _) = p.end();
    assert_eq!((stats.dropped, stats.failed), (0, 0));
    want_all(&numbers(&server), stats.sent);
}

fn otlp(setting: &mut Setting) {
    let options = std::mem::replace(&mut setting.options, PushOptions::new("", ""));
    setting.options = options.protocol(PushProtocol::Otlp);
    many(setting);
}

#[test]
fn nothing_is_lost_while_a_collector_is_away() {
    let (server, away) = away("503 Service Unavailable");
    let p = push(&server.url(), otlp);
    let told = format!("onstack: push to {}/v1development/profiles: 503 Service Unavailable: not yet", server.url());
    eventually("not told", || p.count(PushOutcome::Retry, &told) >= 3);
    away.store(false, Ordering::SeqCst);
    eventually("nothing arrives after the outage", || p.stats().sent >= 10);
    let (stats, _) = p.end();
    assert_eq!((stats.dropped, stats.failed), (0, 0));
    assert_eq!(server.exports().len() as u64, stats.sent);
}

/// It has taken a part, and must not get the rest again.
#[test]
fn what_a_collector_refuses_of_a_profile_is_told() {
    let server = Ingest::new(|number| match number {
        1 => say("200 OK", "content-type: application/x-protobuf\r\n", "\x0a\x0b\x08\x02\x12\x07no room"),
        _ => Reply::Take,
    });
    let p = push(&server.url(), otlp);
    eventually("the next one is not sent", || p.stats().sent > 0);
    let (stats, events) = p.end();
    assert_eq!((stats.failed, stats.retries), (1, 0), "{events:?}");
    assert!(events[0].error.ends_with("the server has refused 2 of its parts: no room"), "{events:?}");
}

#[test]
fn a_server_that_comes_late_gets_all() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let p = push(&format!("http://{address}"), many);
    eventually("no retries while nobody listens", || p.count(PushOutcome::Retry, "onnection refused") >= 3);
    let Ok(listener) = TcpListener::bind(address) else {
        return eprintln!("SKIPPED: somebody else has taken the port");
    };
    let server = Ingest::on(listener, |_| Reply::Take);
    eventually("nothing arrives when the server is there", || p.stats().sent > 0);
    let (stats, _) = p.end();
    want_all(&numbers(&server), stats.sent);
}

/// It is told so, tried again, and profiles are taken meanwhile.
#[test]
fn a_server_that_never_answers_is_left() {
    let server = Ingest::new(|_| Reply::Hang);
    let p = push(&server.url(), |setting| {
        many(setting);
        setting.options.timeout = Duration::from_millis(100);
        setting.times.flush = Duration::from_millis(1);
    });
    eventually("not told", || p.count(PushOutcome::Retry, "no answer within 0.1 s") >= 2);
    let stats = p.end().0;
    assert!(stats.sent == 0 && stats.dropped == stats.taken && stats.taken > 2, "{stats:?}");
}

/// The request that hangs when the pusher is stopped is not waited for: it would last for an hour.
#[test]
fn the_end_waits_for_no_server() {
    let server = Ingest::new(|_| Reply::Hang);
    let p = push(&server.url(), |setting| {
        setting.options.timeout = Duration::from_secs(3600);
        setting.times.flush = Duration::from_millis(50);
    });
    eventually("no request", || server.requests() > 0);
    let (stats, events) = p.end();
    assert_eq!((server.requests(), stats.dropped), (1, stats.taken));
    assert!(events.iter().any(|event| event.error.contains("the end came before the server")), "{events:?}");
}

/// Whatever the server does, profiles arrive in order, each that counts as sent is there, and the books close.
#[test]
fn a_server_of_moods_loses_nothing_silently() {
    let kept = Arc::new(AtomicU64::new(0));
    let ours = kept.clone();
    let server = Ingest::new(move |_| match fastrand::u8(..7) {
        0 => say("503 Service Unavailable", "", ""),
        1 => say("429 Too Many Requests", "retry-after: 0\r\n", ""),
        2 => say("400 Bad Request", "", ""),
        3 => Reply::HangUp,
        4 => {
            ours.fetch_add(1, Ordering::SeqCst);
            Reply::TakeAndHangUp
        }
        _ => Reply::Take,
    });
    let p = push(&server.url(), |setting| {
        setting.options.max_waiting = 100;
        setting.times.interval = Duration::from_millis(20);
    });
    eventually("too little happens", || {
        let stats = p.stats();
        stats.sent >= 50 && stats.failed >= 10 && stats.retries >= 50 && kept.load(Ordering::SeqCst) >= 10
    });
    let (stats, _) = p.end();
    let (numbers, kept) = (numbers(&server), kept.load(Ordering::SeqCst));
    assert!(numbers.windows(2).all(|two| two[0] <= two[1]), "not in order: {numbers:?}");
    assert_eq!(numbers.len() as u64, stats.sent + kept, "{stats:?}");
    let mut distinct = numbers;
    distinct.dedup();
    let distinct = distinct.len() as u64;
    assert!(distinct >= stats.sent && distinct <= stats.sent + kept, "{distinct} of {stats:?}");
}

#[test]
fn retry_after_is_respected() {
    let server = Ingest::new(|number| match number {
        1 => say("429 Too Many Requests", "retry-after: 1\r\n", ""),
        _ => Reply::Take,
    });
    let p = push(&server.url(), |_| {});
    eventually("no second attempt", || p.stats().sent > 0);
    p.end();
    let times = server.times();
    assert!(times[1] - times[0] >= Duration::from_millis(990), "{:?}", times[1] - times[0]);
}

/// A server that said "in an hour" is not asked again at the end, nor is the hour waited for.
#[test]
fn retry_after_holds_at_the_end() {
    let server = Ingest::new(|_| say("503 Service Unavailable", "retry-after: 3600\r\n", ""));
    let p = push(&server.url(), |setting| setting.times.flush = Duration::from_secs(1800));
    eventually("no attempt", || p.stats().retries > 0);
    let (stats, _) = p.end();
    assert!(server.requests() == 1 && stats.dropped > 0, "{stats:?}");
}

/// Clocks end before the longest of all durations.
#[test]
fn times_may_be_without_end() {
    let server = Ingest::new(|_| Reply::Take);
    let p = push(&server.url(), |setting| {
        let options = std::mem::replace(&mut setting.options, PushOptions::new("", ""));
        let options = options.interval(Duration::MAX).timeout(Duration::MAX).flush_timeout(Duration::MAX);
        setting.times = Times::of(&options);
        setting.options = options;
    });
    let (stats, _) = p.end();
    assert_eq!((stats.taken, stats.sent), (1, 1));
}

/// What is sent at the end is what waits, and the last.
#[test]
fn the_end_sends_what_waits() {
    let (server, away) = away("503 Service Unavailable");
    let p = push(&server.url(), |setting| {
        setting.options.max_waiting = 1 << 20;
        // Only the end cuts such a pause short.
        (setting.times.least, setting.times.most) = (Duration::from_secs(3600), Duration::from_secs(3600));
    });
    eventually("nothing waits", || p.stats().waiting > 5);
    away.store(false, Ordering::SeqCst);
    let (stats, _) = p.end();
    assert_eq!((stats.sent, stats.retries), (stats.taken, 1), "{stats:?}");
    want_all(&numbers(&server), stats.taken);
}

#[test]
fn a_profile_that_cannot_be_made_is_told() {
    let server = Ingest::new(|_| Reply::Take);
    let p = push(&server.url(), |setting| setting.fails = true);
    eventually("not told", || p.count(PushOutcome::Failed, "onstack: push: a profile cannot be made: ") > 1);
    let (stats, _) = p.end();
    assert_eq!((stats.failed, server.requests()), (stats.taken, 0));
}

#[test]
fn redirections_are_not_followed() {
    let other = Ingest::new(|_| Reply::Take);
    let location = format!("location: {}/elsewhere?token=hunter2\r\n", other.url());
    let server = Ingest::new(move |_| say("307 Temporary Redirect", &location, ""));
    let p = push(&server.url(), |_| {});
    let text =
        format!("it redirects to {}/elsewhere, which is not followed: give that as PushOptions::url", other.url());
    eventually("not told", || p.count(PushOutcome::Failed, &text) > 0);
    let (_, events) = p.end();
    assert!(other.requests() == 0 && events.iter().all(|event| !event.error.contains("hunter2")), "{events:?}");
}

#[test]
fn memory_is_bounded_by_number() {
    let (server, away) = away("502 Bad Gateway");
    let p = push(&server.url(), |setting| setting.options.max_waiting = 3);
    eventually("nothing is dropped", || {
        let stats = p.stats();
        // A new one is in the books before the oldest goes for it.
        assert!(stats.waiting <= 5, "beyond 3, the one on its way and the one that comes: {stats:?}");
        stats.dropped >= 20
    });
    away.store(false, Ordering::SeqCst);
    assert!(p.count(PushOutcome::Dropped, "PushOptions::max_waiting is 3 and") > 0);
    let taken = p.taken.clone();
    let (stats, _) = p.end();
    let numbers = numbers(&server);
    // The oldest went: what is there is in order and ends with the last. The first may have been on its way all the time.
    assert_eq!(numbers.len() as u64, stats.sent);
    assert!(numbers.windows(2).all(|two| two[0] < two[1]) && numbers[1] > 2, "{numbers:?}");
    assert_eq!(numbers.last(), Some(&taken.load(Ordering::SeqCst)));
}

#[test]
fn memory_is_bounded_by_bytes() {
    let (server, away) = away("502 Bad Gateway");
    let p = push(&server.url(), |setting| {
        setting.options.max_waiting_bytes = 300 << 10;
        setting.padding = 64 << 10; // some 48 KiB compressed
    });
    eventually("nothing is dropped", || {
        let stats = p.stats();
        assert!(stats.waiting <= 8, "{stats:?}");
        stats.dropped >= 10
    });
    assert!(p.count(PushOutcome::Dropped, "max_waiting_bytes 307200: the oldest profile goes") > 0);
    away.store(false, Ordering::SeqCst);
    eventually("nothing arrives after the outage", || p.stats().sent >= 5);
    p.end();
    let numbers = numbers(&server);
    assert!(numbers[1] >= 5, "only the first may have been on its way all the time: {numbers:?}");
}

#[test]
fn a_profile_that_is_too_large_goes_alone() {
    let server = Ingest::new(|_| Reply::Take);
    let p = push(&server.url(), |setting| setting.options.max_waiting_bytes = 60);
    eventually("not told", || p.count(PushOutcome::Dropped, "max_waiting_bytes is 60: raise that") > 2);
    let (stats, _) = p.end();
    assert_eq!((stats.sent, stats.dropped), (0, stats.taken));
}

/// A proxy that says so at once and hangs up: the answer is heard, however large the body is that it did not read.
#[test]
fn an_answer_before_the_body_is_heard() {
    let server = Ingest::new(|_| Reply::SayAtOnce("413 Content Too Large"));
    let p = push(&server.url(), |setting| setting.padding = 4 << 20);
    eventually("not told", || p.count(PushOutcome::Failed, "413 Payload Too Large: make profiles smaller") > 0);
    let (stats, events) = p.end();
    assert_eq!(stats.retries, 0, "{events:?}");
}

#[test]
fn large_profiles_arrive() {
    let server = Ingest::new(|_| Reply::Take);
    let p = push(&server.url(), |setting| setting.padding = 4 << 20);
    eventually("nothing is sent", || p.stats().sent > 0);
    p.end();
    let taken = server.taken();
    assert!(taken[0].headers["content-length"].parse::<usize>().unwrap() > 2 << 20);
    assert_eq!(taken[0].profile.comments().map(str::len).max(), Some(4 << 20));
}

#[test]
fn a_report_that_panics_ends_nothing() {
    let (server, away) = away("503 Service Unavailable");
    let p = push(&server.url(), |setting| {
        let options = std::mem::replace(&mut setting.options, PushOptions::new("", ""));
        setting.options = options.report(|_| panic!("in a report: the text on the screen is meant"));
    });
    eventually("no retries", || p.stats().retries > 3);
    away.store(false, Ordering::SeqCst);
    eventually("nothing is sent", || p.stats().sent > 0);
    assert_eq!(p.pusher.stop().waiting, 0);
}

#[test]
fn a_report_may_drop_its_pusher() {
    let server = Ingest::new(|_| say("400 Bad Request", "", ""));
    let place: Arc<OnceLock<Mutex<Option<Pusher>>>> = Arc::default();
    let dropped = Arc::new(AtomicBool::new(false));
    let (theirs, done) = (place.clone(), dropped.clone());
    let p = push(&server.url(), |setting| {
        let options = std::mem::replace(&mut setting.options, PushOptions::new("", ""));
        setting.options = options.report(move |_| {
            let Some(place) = theirs.get() else { return };
            drop(place.lock().unwrap().take());
            done.store(true, Ordering::SeqCst);
        });
    });
    let stopped = p.stopped.clone();
    assert!(place.set(Mutex::new(Some(p.pusher))).is_ok());
    eventually("the pusher goes on", || dropped.load(Ordering::SeqCst) && stopped.load(Ordering::SeqCst));
}
