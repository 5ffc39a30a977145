// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels of threads, and profiles that go on in children of `fork`.

mod common;
mod pprof;

use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use common::{alone, burn};
use onstack::{thread_label, Clock, Error, Fork, Options, ProfilerGuardBuilder, Session};
use onstack_profile::Profiled;

type Seen = Arc<Mutex<Vec<Vec<(String, String)>>>>;

fn session(bytes: u32) -> (Session, Seen) {
    let seen = Seen::default();
    let sink = seen.clone();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let session = Session::start(Options::new().frequency(250).label_bytes(bytes), move |sample| {
        let labels = sample.labels().map(|(key, value)| (text(key), text(value))).collect();
        sink.lock().unwrap().push(labels);
    });
    (session.unwrap(), seen)
}

/// Burns until a sample has exactly these labels.
fn wait_for(seen: &Seen, labels: &[(&str, &str)]) {
    let wanted: Vec<_> = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    seen.lock().unwrap().clear();
    let limit = Instant::now() + Duration::from_secs(20);
    while !seen.lock().unwrap().contains(&wanted) {
        assert!(Instant::now() < limit, "no sample with {labels:?}: {:?}", seen.lock().unwrap());
        burn(Duration::from_millis(20));
    }
}

#[test]
fn samples_carry_the_labels_that_live() {
    let _alone = alone();
    let (session, seen) = session(256);
    wait_for(&seen, &[]);
    {
        let _request = thread_label("request", "42").unwrap();
        wait_for(&seen, &[("request", "42")]);
        let inner = thread_label("request", "43").unwrap();
        wait_for(&seen, &[("request", "43")]);
        drop(inner);
        wait_for(&seen, &[("request", "42")]);
    }
    wait_for(&seen, &[]);
    // Another thread's are its own.
    let _mine = thread_label("mine", "yes").unwrap();
    std::thread::spawn(move || wait_for(&seen, &[])).join().unwrap();
    session.stop().unwrap();
}

#[test]
fn labels_that_cannot_be_are_refused() {
    for (key, value) in [("thread", "x"), ("thread_id", "x"), ("", "x"), ("a b", "x"), ("a", "x\0y"), ("9", "x")] {
        assert!(matches!(thread_label(key, value), Err(Error::Options(_))), "{key:?} {value:?}");
    }
    assert!(matches!(thread_label("long", &"x".repeat(5000)), Err(Error::Options(_))));
}

#[test]
fn profiles_and_reports_carry_them() {
    let _alone = alone();
    let options = |options: ProfilerGuardBuilder| options.label_bytes(256).labels(&[("service", "test")]);
    let guard = onstack_pprof_compat::ProfilerGuardBuilder::default().frequency(250).with(options).build().unwrap();
    let with = |part: &str| {
        let text = String::from_utf8_lossy(&guard.profile().unwrap().to_bytes()).into_owned();
        text.contains(part)
    };
    let limit = Instant::now() + Duration::from_secs(20);
    while !with("request_of_this_test") {
        assert!(Instant::now() < limit);
        burn(Duration::from_millis(50));
        let _label = thread_label("request_of_this_test", "1").unwrap();
        burn(Duration::from_millis(50));
    }
    guard.stop().unwrap();
    let report = guard.report().build().unwrap();
    let mine = ("request_of_this_test".to_owned(), "1".to_owned());
    let with: isize =
        report.data.iter().filter(|(frames, _)| frames.labels.contains(&mine)).map(|(_, ticks)| ticks).sum();
    assert!(0 < with && with < report.data.values().sum(), "{with} ticks: all or none");
    assert!(report.data.keys().all(|frames| frames.labels.contains(&("service".into(), "test".into()))));
    // What the report writes is what the guard writes, labels and all.
    let of_samples = |bytes: &[u8]| {
        let bytes = String::from_utf8_lossy(bytes).into_owned();
        ["request_of_this_test", "service"].map(|part| bytes.matches(part).count())
    };
    let written = report.profile();
    pprof::read(&written.to_bytes());
    pprof::read(&guard.profile().unwrap().to_bytes());
    assert_eq!(of_samples(&written.to_bytes()), of_samples(&guard.profile().unwrap().to_bytes()));
    assert_eq!(written.summary(), guard.profile().unwrap().summary());
}

/// Ends the child without the test harness's ways out.
fn in_child(work: impl FnOnce() -> bool) {
    // SAFETY: the child uses what the library promises there, and ends by _exit.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(!good)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for our own child.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child says no");
        }
    }
}

#[test]
fn a_guard_that_follows_profiles_the_child_apart() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(250).fork(Fork::Follow).build().unwrap();
    burn(Duration::from_millis(300));
    let limit = Instant::now() + Duration::from_secs(20);
    while guard.profile().unwrap().top().total == 0 {
        assert!(Instant::now() < limit);
        burn(Duration::from_millis(50));
    }
    let parents = guard.profile().unwrap().top().total;
    in_child(|| {
        let first = guard.profile().unwrap().top().total;
        let limit = Instant::now() + Duration::from_secs(20);
        while guard.profile().unwrap().top().total < 40_000_000 {
            if Instant::now() > limit {
                return false;
            }
            burn(Duration::from_millis(50));
        }
        guard.stop().is_ok() && first < parents
    });
    assert!(guard.profile().unwrap().top().total >= parents);
    guard.stop().unwrap();
}

#[test]
fn without_following_the_child_is_clean_and_may_ask() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(250).build().unwrap();
    burn(Duration::from_millis(200));
    in_child(|| {
        burn(Duration::from_millis(50));
        let empty = guard.profile().unwrap().top().total == 0;
        empty && matches!(guard.stop(), Err(Error::Stopped))
    });
    guard.stop().unwrap();
}

#[test]
fn the_wall_clock_sees_threads_that_wait_and_takes_the_wanted_ones() {
    sees_threads_that_wait(Clock::Wall, "wall");
}

#[test]
fn so_does_the_one_that_signals() {
    sees_threads_that_wait(Clock::WallSignal, "wall-signal");
}

fn sees_threads_that_wait(clock: Clock, name: &str) {
    let _alone = alone();
    // The filter is asked once, when the thread has its name.
    let named = Arc::new(Barrier::new(3));
    let sleeper = |name: &str| {
        let (thread, named) = (std::thread::Builder::new().name(name.into()), named.clone());
        let until = Instant::now() + Duration::from_secs(3);
        thread.spawn(move || {
            named.wait();
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(500));
            }
        })
    };
    let threads = [sleeper("wanted"), sleeper("unwanted")].map(|thread| thread.unwrap());
    named.wait();
    let guard = ProfilerGuardBuilder::default().frequency(50).clock(clock).thread_filter(|_, name| name == "wanted");
    let guard = guard.build().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    guard.stop().unwrap();
    assert_eq!(guard.stats().unwrap().clock, name);
    let summary = guard.profile().unwrap().summary();
    let [(thread, value)] = &summary.threads[..] else { panic!("{summary}") };
    assert_eq!((thread.as_str(), summary.value_type.as_str()), ("wanted", "wall"), "{summary}");
    // Three seconds at most, of which a busy machine may take the beginning.
    assert!((1_000_000_000..4_000_000_000).contains(value), "{summary}");
    let refused = ProfilerGuardBuilder::default().thread_filter(|_, _| true).build();
    assert!(matches!(refused, Err(Error::Options(text)) if text.starts_with("thread_filter: ")));
}
