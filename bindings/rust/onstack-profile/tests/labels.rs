// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels of tasks and spans: what a thread carries at each moment, and what samples say of it.

mod common;

use std::collections::HashSet;
use std::future::{pending, poll_fn, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{alone, burn, light};
use onstack::label::{replace_span, FutureExt, Labels};
use onstack::{ProfilerGuardBuilder, Session};
use onstack_profile::Profiled;
use onstack_sys as sys;

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    Labels::new(pairs).unwrap()
}

/// What is in a place of this thread, as `key=value`.
fn in_place(place: u32) -> Vec<String> {
    let mut bytes = 0;
    // SAFETY: nobody lets it go meanwhile.
    let text = unsafe {
        let set = sys::onstack_thread_labels_get(place);
        if set.is_null() {
            return Vec::new();
        }
        sys::onstack_labels_text(set, &mut bytes)
    };
    // SAFETY: as many bytes, of texts.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes as usize) };
    let parts: Vec<_> = text.split(|&byte| byte == 0).map(|part| std::str::from_utf8(part).unwrap()).collect();
    parts.chunks_exact(2).map(|pair| pair.join("=")).collect()
}

fn task() -> Vec<String> {
    in_place(sys::ONSTACK_LABELS_TASK)
}

struct Nothing;
impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Nothing))))
}

/// Pending once; others of its thread run meanwhile.
async fn step() {
    let mut polled = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        match std::mem::replace(&mut polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

#[test]
fn a_future_has_them_while_it_is_polled() {
    let mut future = Box::pin(
        async {
            assert_eq!(task(), ["task=a"]);
            step().await;
            assert_eq!(task(), ["task=a"]);
            7
        }
        .with_labels(labels([("task", "a")])),
    );
    assert!(poll_once(future.as_mut()).is_pending());
    assert!(task().is_empty());
    // On another thread each time, and it may be moved there.
    let ended = thread::spawn(move || {
        let ended = poll_once(future.as_mut());
        assert!(task().is_empty());
        ended
    });
    assert_eq!(ended.join().unwrap(), Poll::Ready(7));
}

#[test]
fn inner_ones_add_to_outer_ones_and_hide_them() {
    let inner = async {
        assert_eq!(task(), ["task=inner", "route=/"]);
        step().await;
        labels([("deep", "1")]).scope(|| assert_eq!(task(), ["deep=1", "task=inner", "route=/"]));
        assert_eq!(task(), ["task=inner", "route=/"]);
    };
    let inner = inner.with_labels(labels([("task", "inner")]));
    let outer = async {
        assert_eq!(task(), ["route=/", "task=outer"]);
        inner.await;
        assert_eq!(task(), ["route=/", "task=outer"]);
    };
    let mut outer = pin!(outer.with_labels(labels([("route", "/"), ("task", "outer")])));
    assert!(poll_once(outer.as_mut()).is_pending());
    assert!(task().is_empty());
    assert!(poll_once(outer.as_mut()).is_ready());
}

/// As in a select or a join that is polled by several tasks.
#[test]
fn a_future_that_comes_into_another_outer_one_has_those_labels() {
    let seen = Mutex::new(Vec::new());
    let inner = async {
        loop {
            seen.lock().unwrap().push(task().join(" "));
            step().await;
        }
    };
    let mut inner = pin!(inner.with_labels(labels([("inner", "i")])));
    for name in ["a", "b"] {
        let outer = labels([("outer", name)]);
        outer.scope(|| assert!(poll_once(inner.as_mut()).is_pending()));
        outer.scope(|| assert!(poll_once(inner.as_mut()).is_pending()));
        assert!(poll_once(inner.as_mut()).is_pending());
    }
    let (a, b) = ("inner=i outer=a", "inner=i outer=b");
    assert_eq!(*seen.lock().unwrap(), [a, a, "inner=i", b, b, "inner=i"]);
}

#[test]
fn the_same_set_inside_itself_is_one() {
    let set = labels([("task", "a")]);
    set.scope(|| set.clone().scope(|| assert_eq!(task(), ["task=a"])));
}

struct LooksAtItsEnd<'a>(&'a Mutex<Vec<String>>);
impl Drop for LooksAtItsEnd<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = task();
    }
}

#[test]
fn a_future_that_is_cancelled_is_dropped_under_them() {
    let at_end = Mutex::new(Vec::new());
    let looks = LooksAtItsEnd(&at_end);
    let mut future = Box::pin(
        async move {
            let _looks = looks;
            pending::<()>().await;
        }
        .with_labels(labels([("task", "cancelled")])),
    );
    assert!(poll_once(future.as_mut()).is_pending());
    labels([("outer", "o")]).scope(|| drop(future));
    assert_eq!(*at_end.lock().unwrap(), ["task=cancelled", "outer=o"]);
    assert!(task().is_empty());
}

#[test]
fn a_panic_takes_them_back() {
    let outer = labels([("outer", "o")]);
    outer.scope(|| {
        let mut future = Box::pin(async { panic!("in a poll, on purpose") }.with_labels(labels([("task", "panics")])));
        assert!(catch_unwind(AssertUnwindSafe(|| poll_once::<_>(future.as_mut()).is_ready())).is_err());
        assert_eq!(task(), ["outer=o"]);
        let panics = || labels([("task", "panics")]).scope(|| panic!("in a scope, on purpose"));
        assert!(catch_unwind(panics).is_err());
        assert_eq!(task(), ["outer=o"]);
    });
    assert!(task().is_empty());
}

#[test]
fn sets_and_futures_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    fn is_sync<T: Sync>(_: &T) {}
    let set = labels([("task", "a")]);
    let future = async {}.with_labels(set.clone());
    is_send(&future);
    is_sync(&future);
    is_send(&set);
    is_sync(&set);
    // Sets outlive whoever made them.
    let set = thread::spawn(move || set).join().unwrap();
    set.scope(|| assert_eq!(task(), ["task=a"]));
}

#[test]
fn spans_have_a_place_of_their_own() {
    let span = || in_place(sys::ONSTACK_LABELS_SPAN);
    thread::spawn(move || {
        assert_eq!(replace_span(Some(labels([("span", "a")]))), None);
        labels([("task", "t")]).scope(|| {
            assert_eq!((task(), span()), (vec!["task=t".to_owned()], vec!["span=a".to_owned()]));
            let outer = replace_span(Some(labels([("span", "b")])));
            assert_eq!((outer.unwrap(), span()), (labels([("span", "a")]), vec!["span=b".to_owned()]));
        });
        assert_eq!(span(), ["span=b"]);
    })
    .join()
    .unwrap();
    assert!(span().is_empty());
}

struct ReplacesAtItsEnd;
impl Drop for ReplacesAtItsEnd {
    fn drop(&mut self) {
        let set = labels([("span", "at the end")]);
        replace_span(Some(set.clone()));
        set.scope(|| ());
    }
}
thread_local! {
    static AT_ITS_END: ReplacesAtItsEnd = const { ReplacesAtItsEnd };
}

/// Whichever destructor of a thread comes first.
#[test]
fn threads_that_end_may_have_labels_to_the_last() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(1000).build().unwrap();
    for round in 0..200 {
        let set = labels([("span", "of a thread")]);
        let first = move || AT_ITS_END.with(|_| ());
        let second = move || drop(replace_span(Some(set)));
        thread::spawn(move || match round % 2 {
            0 => (first(), second()),
            _ => (second(), first()),
        })
        .join()
        .unwrap();
    }
    guard.stop().unwrap();
}

/// Burns until each of these has been seen with samples of its own.
#[test]
fn samples_carry_what_their_thread_polled() {
    let _alone = alone();
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let sink = seen.clone();
    let session = Session::start(onstack::Options::new().frequency(250), move |sample| {
        // Tests beside this one have labels of their own.
        if sample.thread_name() != b"polls" {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let labels = sample.labels().map(|(key, value)| format!("{}={}", text(key), text(value)));
        sink.lock().unwrap().insert(labels.collect::<Vec<_>>().join(" "));
    });
    let session = session.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).thread_name("polls").build().unwrap();
    let tasks: Vec<_> = (0..3)
        .map(|number| {
            let over = over.clone();
            let work = async move {
                while !over.load(Ordering::Relaxed) {
                    light(100_000);
                    let name = number.to_string();
                    let part = labels([("part", &name)]);
                    async { light(100_000) }.with_labels(part).await;
                    tokio::task::yield_now().await;
                }
            };
            runtime.spawn(work.with_labels(labels([("task", &number.to_string())])))
        })
        .collect();
    let expected: HashSet<String> =
        (0..3).flat_map(|number| [format!("task={number}"), format!("part={number} task={number}")]).collect();
    let limit = Instant::now() + Duration::from_secs(60);
    while !expected.is_subset(&seen.lock().unwrap()) {
        assert!(Instant::now() < limit, "{:?}", seen.lock().unwrap());
        thread::sleep(Duration::from_millis(20));
    }
    over.store(true, Ordering::Relaxed);
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    session.stop().unwrap();
    // What the runtime does for itself has none; nothing else may be there.
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|labels| labels.is_empty() || expected.contains(labels)), "{seen:?}");
}

/// Samples of a thread that does nothing but enter and leave: a set that is made for the occasion is in its place when it is whole.
#[test]
fn no_sample_has_inner_labels_alone() {
    let _alone = alone();
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let sink = seen.clone();
    let session = Session::start(onstack::Options::new().frequency(997), move |sample| {
        if sample.thread_name() == b"nests" {
            let labels = sample.labels().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap());
            sink.lock().unwrap().insert(labels.collect::<Vec<_>>());
        }
    });
    let session = session.unwrap();
    let work = || {
        let (outer, inner) = (labels([("outer", "o")]), labels([("inner", "i")]));
        let begun = Instant::now();
        outer.scope(|| {
            while begun.elapsed() < Duration::from_millis(500) {
                inner.scope(|| {})
            }
        });
    };
    thread::Builder::new().name("nests".into()).spawn(work).unwrap().join().unwrap();
    session.stop().unwrap();
    let mut seen = seen.lock().unwrap();
    assert!(seen.remove(&vec!["outer".to_string()]), "{seen:?}");
    seen.remove(&vec!["inner".to_string(), "outer".to_string()]);
    seen.remove(&Vec::new());
    assert!(seen.is_empty(), "{seen:?}");
}

/// A burst: every tick is in a profile, or lost for a named reason.
#[test]
fn a_thousand_labelled_requests_at_once_keep_the_accounting_closed() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(1000).thread_ids(false).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let requests: Vec<_> = (0..1000)
        .map(|number| {
            let labels = labels([("http.route", "/burst"), ("request-id", &number.to_string())]);
            let answer = async {
                for _ in 0..4 {
                    burn(Duration::from_micros(500));
                    tokio::task::yield_now().await;
                }
            };
            runtime.spawn(answer.with_labels(labels))
        })
        .collect();
    requests.into_iter().for_each(|request| runtime.block_on(request).unwrap());
    guard.stop().unwrap();
    let stats = guard.stats().unwrap();
    let dropped = stats.dropped_ring_full + stats.dropped_no_stack + stats.dropped_unwinder + stats.dropped_stopping;
    assert_eq!(stats.ticks, stats.recorded + stats.unattributed + dropped, "{stats:?}");
    let mut profile = guard.profile().unwrap();
    profile.show("samples").unwrap();
    let total = profile.top().total;
    assert_eq!(total as u64, stats.recorded, "{stats:?}");
    profile.retain_label("http.route", |route| route == Some("/burst"));
    let (ticks, ids) = (profile.top().total, profile.by_label("request-id").values.len());
    // Two seconds of CPU time, of 250 samples each at the least.
    assert!(ticks * 10 > total * 8 && ids > 100, "{ticks} of {total} ticks, of {ids} requests");
}
