// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs as people write them: pools, async tasks, deep stacks, panics, generic names, guards that are leaked.

mod common;

use std::hint::black_box;
use std::panic;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{alone, burn, heavy};
use onstack_pprof_compat::{ProfilerGuard, ProfilerGuardBuilder};
use onstack_profile::Top;
use rayon::prelude::*;

fn top_of(work: impl FnOnce()) -> Top {
    let guard = ProfilerGuard::new(250).unwrap();
    work();
    guard.stop().unwrap();
    guard.report().build().unwrap().top()
}

/// Share of the whole that was spent in functions of such a name and in what they called.
fn cum(top: &Top, part: &str) -> f64 {
    top.entries.iter().filter(|entry| entry.name.contains(part)).map(|entry| top.share(entry.cum)).fold(0.0, f64::max)
}

#[test]
fn rayon_workers_are_seen_with_their_names() {
    let _alone = alone();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).thread_name(|n| format!("pool-{n}")).build().unwrap();
    let guard = ProfilerGuard::new(250).unwrap();
    let sum: u64 = pool.install(|| (0..1500u64).into_par_iter().map(|n| heavy(100_000) ^ n).reduce(|| 0, |a, b| a ^ b));
    black_box(sum);
    guard.stop().unwrap();
    let profile = guard.profile().unwrap();
    let (top, summary) = (profile.top(), profile.summary());
    assert!(cum(&top, "::heavy") > 0.8, "{top}");
    assert!(cum(&top, "rayon_core::registry::WorkerThread") > 0.8, "{top}");
    let seen = summary.threads.iter().filter(|(name, _)| name.starts_with("pool-")).count();
    assert_eq!(seen, 3, "{summary}");
}

async fn inner() -> u64 {
    let mut sum = 0;
    for _ in 0..100 {
        sum ^= heavy(100_000);
        tokio::task::yield_now().await;
    }
    sum
}

async fn outer() -> u64 {
    inner().await ^ inner().await
}

#[test]
fn async_tasks_show_the_futures_that_were_polled() {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let top = top_of(|| {
        let tasks: Vec<_> = (0..6).map(|_| runtime.spawn(outer())).collect();
        tasks.into_iter().for_each(|task| assert_ne!(black_box(runtime.block_on(task).unwrap()), 1));
    });
    for part in ["::heavy", "programs::inner::{", "programs::outer::{", "tokio::runtime"] {
        assert!(cum(&top, part) > 0.7, "{part}\n{top}");
    }
}

#[inline(never)]
fn recurse(depth: u32) -> u64 {
    if depth == 0 {
        return (0..200).fold(0, |sum, _| sum ^ heavy(100_000));
    }
    black_box(recurse(black_box(depth - 1))).wrapping_add(1)
}

#[test]
fn deep_recursion_is_followed_or_says_that_it_was_cut() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(250).with(|options| options.max_depth(1024)).build().unwrap();
    let small = ProfilerGuardBuilder::default().frequency(250).with(|options| options.max_depth(64)).build().unwrap();
    recurse(700);
    guard.stop().unwrap();
    small.stop().unwrap();
    let (whole, cut) = (guard.profile().unwrap().summary(), small.profile().unwrap().summary());
    assert!((700..1024).contains(&whole.deepest), "{whole}");
    assert_eq!(whole.truncated.get("deeper than the maximal depth"), None, "{whole}");
    let by_depth = cut.truncated.get("deeper than the maximal depth").copied().unwrap_or(0);
    assert!(by_depth > cut.total * 3 / 4, "{cut}");
}

struct Unwinds;

impl Drop for Unwinds {
    fn drop(&mut self) {
        black_box(heavy(100_000));
    }
}

#[test]
fn panics_unwind_through_sampled_frames() {
    let _alone = alone();
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let top = top_of(|| {
        for _ in 0..400 {
            let caught = panic::catch_unwind(|| {
                let _guard = Unwinds;
                panic!("this panic belongs to a test");
            });
            assert!(caught.is_err());
        }
    });
    panic::set_hook(hook);
    assert!(cum(&top, "::heavy") > 0.3, "{top}");
}

trait Layer {
    fn run(&self) -> u64;
}

struct Wrapped<T>(T);
struct Leaf;

impl Layer for Leaf {
    fn run(&self) -> u64 {
        (0..100).fold(0, |sum, _| sum ^ heavy(100_000))
    }
}

impl<T: Layer> Layer for Wrapped<T> {
    #[inline(never)]
    fn run(&self) -> u64 {
        black_box(self.0.run())
    }
}

type Four<T> = Wrapped<Wrapped<Wrapped<Wrapped<T>>>>;

#[test]
fn generic_names_are_whole() {
    let _alone = alone();
    let layers: Four<Four<Leaf>> = Wrapped(Wrapped(Wrapped(Wrapped(Wrapped(Wrapped(Wrapped(Wrapped(Leaf))))))));
    let top = top_of(|| assert_ne!(black_box((0..6).fold(0, |sum, _| sum ^ layers.run())), 1));
    let outermost = top.entries.iter().find(|entry| entry.name.contains("Wrapped<") && top.share(entry.cum) > 0.5);
    let name = &outermost.unwrap_or_else(|| panic!("{top}")).name;
    assert!(name.contains("Layer>::run") || name.contains("run<"), "{name}");
    assert!(!name.contains("17h"), "a hash is left: {name}");
}

#[test]
fn guards_may_be_made_by_many_threads_at_once() {
    let _alone = alone();
    let threads: Vec<_> = (0..6)
        .map(|_| {
            thread::spawn(|| {
                for _ in 0..4 {
                    let guard = ProfilerGuard::new(200).unwrap();
                    burn(Duration::from_millis(40));
                    let top = guard.report().build().unwrap().top();
                    drop(guard);
                    drop(top);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(common::own_threads(), 0);
}

#[test]
fn a_guard_may_go_before_what_it_gave_and_in_any_order() {
    let _alone = alone();
    let before = common::action(libc::SIGPROF);
    let (first, second, third) =
        (ProfilerGuard::new(50).unwrap(), ProfilerGuard::new(99).unwrap(), ProfilerGuard::new(199).unwrap());
    burn(Duration::from_millis(300));
    let report = third.report().build().unwrap();
    drop(second);
    drop(third);
    drop(first);
    assert_eq!(common::action(libc::SIGPROF), before);
    assert!(report.top().total > 0);
    // Inside a value that is dropped while a panic unwinds, on another thread.
    let ended = thread::spawn(|| {
        let _guard = ProfilerGuard::new(99).unwrap();
        panic!("this panic belongs to a test");
    });
    assert!(ended.join().is_err());
    assert_eq!(common::action(libc::SIGPROF), before);
}

/// In a process of its own: it ends while the guard still profiles.
#[test]
fn a_leaked_guard_does_not_hinder_the_end() {
    let _alone = alone();
    if std::env::var_os("ONSTACK_TEST_LEAK").is_some() {
        let guard = ProfilerGuard::new(1000).unwrap();
        burn(Duration::from_millis(200));
        assert!(guard.stats().unwrap().recorded > 0);
        std::mem::forget(guard);
        thread::spawn(|| burn(Duration::from_secs(60)));
        return;
    }
    for _ in 0..5 {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_leaked_guard_does_not_hinder_the_end"])
            .env("ONSTACK_TEST_LEAK", "1")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
}
