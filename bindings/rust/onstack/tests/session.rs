// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples given to a closure.

mod common;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{alone, burn, eventually, own_threads};
use onstack::{Error, Options, Session, Truncation};

const WORK: Duration = Duration::from_millis(400);

#[test]
fn the_closure_sees_every_sample() {
    let _alone = alone();
    let (sender, samples) = channel();
    let session = Session::start(Options::new().frequency(200), move |sample| {
        let name = String::from_utf8_lossy(sample.thread_name()).into_owned();
        sender
            .send((name, sample.thread_id(), sample.weight(), sample.frames().to_vec(), sample.truncation()))
            .unwrap();
        assert_eq!(sample.period().duration(), Some(Duration::from_millis(5)));
        assert_eq!((sample.kind(), sample.unit()), (onstack::Kind::Cpu, onstack::Unit::Nanoseconds));
        assert_eq!(sample.value(), u64::from(sample.weight()) * 5_000_000);
    })
    .unwrap();
    let work = || {
        // SAFETY: asks for a number.
        let id = unsafe { libc::gettid() };
        burn(WORK);
        id
    };
    let id = thread::Builder::new().name("a-worker".into()).spawn(work).unwrap().join().unwrap();
    session.stop().unwrap();

    let samples: Vec<_> = samples.try_iter().collect();
    let stats = session.stats().unwrap();
    assert_eq!(samples.len() as u64, stats.delivered);
    assert_eq!(samples.iter().map(|sample| u64::from(sample.2)).sum::<u64>(), stats.recorded);
    let of_worker: Vec<_> = samples.iter().filter(|sample| sample.1 == id).collect();
    let ticks: u32 = of_worker.iter().map(|sample| sample.2).sum();
    assert!((56..=104).contains(&ticks), "{ticks} ticks of 400 ms at 200 Hz");
    let named = of_worker.iter().filter(|sample| sample.0 == "a-worker").count();
    assert!(named > of_worker.len() / 2, "{named} of {} know the thread's name", of_worker.len());
    let code = common::heavy as fn(u64) -> u64 as usize as u64;
    let near = of_worker.iter().filter(|sample| sample.3[0].abs_diff(code) < 1 << 16).count();
    assert!(near > of_worker.len() / 2, "the leaves are not where the work is");
    assert!(of_worker.iter().any(|sample| sample.4 == Truncation::Not && sample.3.len() > 3));
    assert!(!session.sink_panicked());
}

#[test]
fn a_panic_in_the_closure_ends_there() {
    let _alone = alone();
    let calls = Arc::new(AtomicU32::new(0));
    let seen = calls.clone();
    let session = Session::start(Options::new().frequency(200), move |_| {
        seen.fetch_add(1, SeqCst);
        std::panic::resume_unwind(Box::new("without the hook, and so without a line on stderr"));
    })
    .unwrap();
    burn(WORK);
    session.stop().unwrap();
    assert!(session.sink_panicked());
    assert_eq!(calls.load(SeqCst), 1);
    let stats = session.stats().unwrap();
    assert!(stats.delivered > 1 && stats.dropped_sink == stats.delivered, "{stats:?}");

    drop(session);
    assert_eq!(Arc::strong_count(&calls), 1, "the closure was freed");
    let again = Session::start(Options::new(), |_| {}).unwrap();
    again.stop().unwrap();
}

#[test]
fn without_threads_the_host_polls() {
    let _alone = alone();
    let calls = Arc::new(AtomicU64::new(0));
    let (seen, here) = (calls.clone(), thread::current().id());
    let session = Session::start(Options::new().frequency(200).threads(false), move |_| {
        assert_eq!(thread::current().id(), here);
        seen.fetch_add(1, SeqCst);
    })
    .unwrap();
    assert_eq!(own_threads(), 0);
    burn(WORK);
    assert_eq!(calls.load(SeqCst), 0);
    assert_eq!(session.poll(1).unwrap(), 1);
    let rest = session.poll(0).unwrap();
    assert!(rest > 20, "{rest}");
    assert_eq!(calls.load(SeqCst), u64::from(rest) + 1);
    session.stop().unwrap();
    assert!(!session.sink_panicked());
    assert!(matches!(session.poll(0), Err(Error::Stopped)));
}

#[test]
fn a_session_that_is_dropped_inside_a_sink_ends() {
    let _alone = alone();
    let alive = Arc::new(());
    let held = alive.clone();
    let other = Session::start(Options::new(), move |_| drop(held.clone())).unwrap();
    let other = Mutex::new(Some(other));
    let session = Session::start(Options::new().frequency(200), move |_| {
        drop(other.lock().unwrap().take());
    })
    .unwrap();
    burn(WORK);
    assert!(eventually(|| Arc::strong_count(&alive) == 1), "its closure was not freed");
    drop(session);
    assert!(eventually(|| own_threads() == 0));
}

#[test]
fn stop_inside_a_sink_is_refused() {
    let _alone = alone();
    let result = Arc::new(Mutex::new(None));
    let place: Arc<Mutex<Option<Session>>> = Arc::default();
    let (shared, itself) = (result.clone(), place.clone());
    let session = Session::start(Options::new().frequency(200), move |_| {
        if let Some(session) = itself.lock().unwrap().as_ref() {
            shared.lock().unwrap().get_or_insert_with(|| (session.stop(), session.poll(0)));
        }
    })
    .unwrap();
    *place.lock().unwrap() = Some(session);
    burn(WORK);
    assert!(eventually(|| result.lock().unwrap().is_some()));
    assert!(matches!(*result.lock().unwrap(), Some((Err(Error::Context), Err(Error::Context)))));
    // Out of the circle: the closure holds the place that holds the session.
    let session = place.lock().unwrap().take();
    drop(session);
    assert_eq!(own_threads(), 0);
}

#[test]
fn nothing_comes_after_stop_or_drop() {
    let _alone = alone();
    let calls = Arc::new(AtomicU64::new(0));
    for by_drop in [false, true] {
        let seen = calls.clone();
        let session = Session::start(Options::new().frequency(500), move |_| {
            seen.fetch_add(1, SeqCst);
        })
        .unwrap();
        burn(WORK / 4);
        let session = if by_drop {
            drop(session);
            None
        } else {
            session.stop().unwrap();
            Some(session)
        };
        let after = calls.load(SeqCst);
        assert!(after > 0);
        burn(WORK / 4);
        assert_eq!(calls.load(SeqCst), after);
        drop(session);
    }
    assert_eq!(own_threads(), 0);
}
