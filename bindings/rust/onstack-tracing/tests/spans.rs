// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread shows while spans are entered and left, and what samples say of it.

use std::collections::HashSet;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onstack::label::Labels;
use onstack::{Error, Options, Session};
use onstack_sys as sys;
use onstack_tracing::LabelLayer;
use tracing::instrument::Instrument;
use tracing::subscriber::with_default;
use tracing::{debug_span, field, info_span, Level};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

/// What is in this thread's place for spans, as `key=value`.
fn shown() -> Vec<String> {
    let (mut set, mut bytes) = (ptr::null(), 0);
    // SAFETY: it is put back before anybody could let it go.
    let text = unsafe {
        sys::onstack_thread_labels_swap(sys::ONSTACK_LABELS_SPAN, ptr::null(), &mut set);
        sys::onstack_thread_labels_swap(sys::ONSTACK_LABELS_SPAN, set, ptr::null_mut());
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

fn layer() -> LabelLayer {
    LabelLayer::builder().field("http.route").field_as("user", "user.id").build().unwrap()
}

fn under<R>(layer: LabelLayer, work: impl FnOnce() -> R) -> R {
    with_default(tracing_subscriber::registry().with(layer), work)
}

#[test]
fn chosen_fields_are_labels_while_a_span_is_entered() {
    under(layer(), || {
        let span = info_span!("a", http.route = "/x", user = 7, other = "not chosen");
        assert!(shown().is_empty());
        span.in_scope(|| {
            assert_eq!(shown(), ["http.route=/x", "user.id=7"]);
            // A child without any has its parent's, one with some adds to them and hides them.
            info_span!("b", other = 1).in_scope(|| assert_eq!(shown(), ["http.route=/x", "user.id=7"]));
            info_span!("c", user = %"me").in_scope(|| assert_eq!(shown(), ["user.id=me", "http.route=/x"]));
            // One without a parent is what it is.
            info_span!(parent: None, "d").in_scope(|| assert!(shown().is_empty()));
            assert_eq!(shown(), ["http.route=/x", "user.id=7"]);
        });
        assert!(shown().is_empty());
        let child = info_span!(parent: &span, "e", user = ?Some(1));
        drop(span);
        child.in_scope(|| assert_eq!(shown(), ["user.id=Some(1)", "http.route=/x"]));
    });
}

#[test]
fn names_are_labels_where_they_are_wanted() {
    under(LabelLayer::builder().span_name("span").build().unwrap(), || {
        let _outer = info_span!("outer", http.route = "not chosen").entered();
        let inner = info_span!("inner").entered();
        assert_eq!(shown(), ["span=inner"]);
        drop(inner);
        assert_eq!(shown(), ["span=outer"]);
    });
    assert!(shown().is_empty());
}

#[test]
fn spans_may_be_left_in_any_order() {
    under(layer(), || {
        let a = info_span!("a", http.route = "/a").entered();
        let b = info_span!(parent: None, "b", http.route = "/b").entered();
        drop(a);
        assert_eq!(shown(), ["http.route=/b"]);
        drop(b);
        assert!(shown().is_empty());
    });
}

#[test]
fn a_field_may_be_recorded_later() {
    under(layer(), || {
        let span = info_span!("a", http.route = "/x", user = field::Empty);
        span.record("user", 1);
        assert!(shown().is_empty(), "it is not entered");
        span.in_scope(|| {
            assert_eq!(shown(), ["user.id=1", "http.route=/x"]);
            span.record("user", 2);
            assert_eq!(shown(), ["user.id=2", "http.route=/x"]);
            span.record("http.route", "/y");
            assert_eq!(shown(), ["http.route=/y", "user.id=2"]);
        });
    });
}

#[test]
fn what_a_filter_hides_is_no_span() {
    let quiet = tracing_subscriber::registry().with(layer().with_filter(LevelFilter::from_level(Level::INFO)));
    with_default(quiet, || {
        let _outer = info_span!("a", http.route = "/x").entered();
        let hidden = debug_span!("b", http.route = "/hidden").entered();
        assert_eq!(shown(), ["http.route=/x"]);
        let inner = info_span!("c", user = 1).entered();
        assert_eq!(shown(), ["user.id=1", "http.route=/x"]);
        drop(inner);
        assert_eq!(shown(), ["http.route=/x"]);
        drop(hidden);
        assert_eq!(shown(), ["http.route=/x"]);
    });
}

#[test]
fn a_span_that_is_closed_while_a_thread_is_in_it_stays_whole() {
    under(layer(), || {
        let span = info_span!("a", http.route = "/x");
        let id = span.id().unwrap();
        // By hand, as a library may: nothing holds the span but the handle.
        tracing::dispatcher::get_default(|dispatch| dispatch.enter(&id));
        drop(span);
        assert_eq!(shown(), ["http.route=/x"]);
        tracing::dispatcher::get_default(|dispatch| dispatch.exit(&id));
        assert!(shown().is_empty());
    });
}

#[test]
fn a_key_that_no_label_can_have_is_named() {
    for builder in [
        LabelLayer::builder().field("a b"),
        LabelLayer::builder().field_as("fine", "thread"),
        LabelLayer::builder().span_name("9"),
    ] {
        assert!(matches!(builder.build(), Err(Error::Options(text)) if text.starts_with("label \"")));
    }
}

#[test]
fn samples_carry_the_span_that_a_task_is_in() {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let sink = seen.clone();
    let session = Session::start(Options::new().frequency(250), move |sample| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let labels = sample.labels().map(|(key, value)| format!("{}={}", text(key), text(value)));
        sink.lock().unwrap().insert(labels.collect::<Vec<_>>().join(" "));
    });
    let session = session.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let burn = || {
        black_box((0..100_000u64).fold(1, |sum, number| black_box(sum ^ number.wrapping_mul(31))));
    };
    // Each worker makes spans of its own.
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer()));
    let _default = tracing::dispatcher::set_default(&dispatch);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks = ["/a", "/b"].map(|route| {
        let over = over.clone();
        let work = async move {
            while !over.load(Ordering::Relaxed) {
                burn();
                tokio::task::yield_now().await;
            }
        };
        runtime.spawn(work.instrument(info_span!("request", http.route = route)))
    });
    let task = Labels::new([("task", "main")]).unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    let wanted = ["http.route=/a", "http.route=/b", "task=main http.route=/main"];
    let wanted: HashSet<String> = wanted.map(str::to_owned).into();
    while !wanted.is_subset(&seen.lock().unwrap()) {
        assert!(Instant::now() < limit, "{:?}", seen.lock().unwrap());
        task.scope(|| info_span!("main", http.route = "/main").in_scope(|| (0..50).for_each(|_| burn())));
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    session.stop().unwrap();
}
