// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a poll costs with labels, beside the same poll without, and a span with the layer and without: medians of rounds that
//! take turns.

use std::future::{poll_fn, Future};
use std::hint::black_box;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use onstack::label::{FutureExt, Labels};
use onstack::thread_label;
use onstack_tracing::LabelLayer;
use tracing_subscriber::prelude::*;

/// So few that most rounds are not interrupted on a busy machine.
const POLLS: u32 = 5_000;
const ROUNDS: usize = 2_001;

struct Nothing;
impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

/// Never ready; counts, so that a poll is not optimized away.
fn counts() -> impl Future<Output = u64> {
    let mut count = 0u64;
    poll_fn(move |_| {
        count += 1;
        match black_box(count) {
            u64::MAX => Poll::Ready(count),
            _ => Poll::Pending,
        }
    })
}

fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..POLLS).for_each(|_| work());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(POLLS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let waker = Waker::from(Arc::new(Nothing));
    let mut context = Context::from_waker(&waker);
    let labels = Labels::new([("http.route", "/cart"), ("request-id", "4711")]).unwrap();
    let outer = Labels::new([("tenant", "a")]).unwrap();
    let (mut plain, mut labelled) = (pin!(counts()), pin!(counts().with_labels(labels.clone())));
    let mut nested = pin!(counts().with_labels(labels.clone()));
    let mut poll = |future: &mut Pin<&mut dyn Future<Output = u64>>| {
        nanoseconds(|| assert!(black_box(&mut *future).as_mut().poll(&mut context).is_pending()))
    };
    let mut rounds = vec![Vec::new(); 4];
    for _ in 0..ROUNDS {
        rounds[0].push(poll(&mut (plain.as_mut() as _)));
        rounds[1].push(poll(&mut (labelled.as_mut() as _)));
        outer.scope(|| rounds[2].push(poll(&mut (nested.as_mut() as _))));
        rounds[3].push(nanoseconds(|| drop(black_box(thread_label("request-id", "4711")))));
    }
    let [plain, labelled, nested, one] = [0, 1, 2, 3].map(|way| median(std::mem::take(&mut rounds[way])));
    let layer = LabelLayer::builder().field("http.route").build().unwrap();
    let dispatches: [tracing::Dispatch; 2] =
        [tracing_subscriber::registry().into(), tracing_subscriber::registry().with(layer).into()];
    let spans = dispatches.map(|dispatch| {
        tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("request", http.route = "/cart"))
    });
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let way = round % 2;
        rounds[way].push(nanoseconds(|| spans[way].in_scope(|| assert!(!black_box(&spans).is_empty()))));
    }
    let [bare, with_layer] = rounds.map(median);
    println!("{plain:6.1} ns a poll without labels");
    println!("{labelled:6.1} ns with two labels: {:.1} more", labelled - plain);
    println!("{nested:6.1} ns with two inside another one: {:.1} more", nested - plain);
    println!("{one:6.1} ns for thread_label, set and dropped");
    println!("{bare:6.1} ns for a span, entered and left, and {with_layer:.1} with the layer: {:.1} more", with_layer - bare);
}
