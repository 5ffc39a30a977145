// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heap profiles of a program whose books of its own allocations are exact.

mod common;
mod pprof;

use std::alloc::{alloc_zeroed, dealloc, realloc, Layout};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use common::alone;
use onstack::heap::Allocator;
use onstack::label::Labels;
use onstack::{Clock, Error, ProfilerGuard, ProfilerGuardBuilder};
use onstack_profile::{Profile, Profiled};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

const ROUNDS: usize = 300;

fn guard(interval: u32) -> ProfilerGuard {
    let guard = ProfilerGuardBuilder::default().clock(Clock::Heap).heap_interval(interval).build().unwrap();
    let stats = guard.stats().unwrap();
    let period = stats.period;
    assert_eq!((period.amount, period.unit, period.duration()), (u64::from(interval), onstack::Unit::Bytes, None));
    guard
}

/// What stands in that column for all stacks through the test's function of that name.
fn sum(profile: &mut Profile, column: &str, function: &str) -> i64 {
    profile.show(column).unwrap();
    profile.top().get(&format!("heap::{function}")).map_or(0, |entry| entry.cum)
}

#[inline(never)]
fn keep_boxes() -> Vec<Box<[u8]>> {
    black_box((0..ROUNDS).map(|_| vec![1u8; 1000].into_boxed_slice()).collect())
}

/// At one address, again and again: fewer times than there are places for one.
const LET_GO: usize = 20;

#[inline(never)]
fn let_go() {
    (0..LET_GO).for_each(|_| drop(black_box(vec![1u8; 500])));
}

#[inline(never)]
fn grow() -> *mut u8 {
    let layout = Layout::from_size_align(100, 64).unwrap();
    // SAFETY: layouts of sizes above 0, each block with the layout that it has.
    unsafe {
        let block = alloc_zeroed(layout);
        assert!((0..100).all(|at| *block.add(at) == 0) && block as usize % 64 == 0);
        *block.add(99) = 7;
        let larger = realloc(block, layout, 5000);
        assert!(*larger.add(99) == 7 && larger as usize % 64 == 0);
        larger
    }
}

#[test]
fn a_profile_without_samples_is_one_of_memory() {
    let _alone = alone();
    let mut profile = guard(u32::MAX).profile().unwrap();
    profile.show("alloc_objects").unwrap();
    assert_eq!(profile.top().total, 0);
    pprof::read(&profile.to_bytes());
}

#[test]
fn each_block_is_counted_with_an_interval_of_1() {
    let _alone = alone();
    let guard = guard(1);
    let kept = keep_boxes();
    let_go();
    let grown = grow();
    let elsewhere = thread::spawn(keep_boxes).join().unwrap();
    drop(elsewhere);
    guard.stop().unwrap(); // all has reached the profile
    let mut profile = guard.profile().unwrap();
    pprof::read(&profile.to_bytes());
    let bytes = (ROUNDS * 1000) as i64;
    let list = (ROUNDS * size_of::<Box<[u8]>>()) as i64;
    assert_eq!(sum(&mut profile, "inuse_space", "keep_boxes"), bytes + list);
    assert_eq!(sum(&mut profile, "alloc_space", "keep_boxes"), 2 * (bytes + list));
    assert_eq!(sum(&mut profile, "inuse_objects", "keep_boxes"), ROUNDS as i64 + 1);
    assert_eq!(sum(&mut profile, "alloc_space", "let_go"), (LET_GO * 500) as i64);
    assert_eq!(sum(&mut profile, "inuse_space", "let_go"), 0);
    assert_eq!(sum(&mut profile, "alloc_space", "grow"), 5100);
    assert_eq!(sum(&mut profile, "inuse_space", "grow"), 5000);
    let stats = guard.stats().unwrap();
    assert_eq!((stats.clock.as_str(), stats.dropped_ring_full, stats.heap_untracked), ("heap", 0, 0));
    // A block that outlives its session.
    drop(guard);
    // SAFETY: the block's layout.
    unsafe { dealloc(grown, Layout::from_size_align(5000, 64).unwrap()) };
    drop(kept);
}

#[test]
fn samples_stand_for_all_bytes() {
    let _alone = alone();
    let guard = guard(4096);
    let kept: Vec<_> = (0..20).map(|_| keep_boxes()).collect();
    let mut profile = guard.profile().unwrap();
    let wanted = (20 * ROUNDS * 1000) as f64;
    let found = sum(&mut profile, "inuse_space", "keep_boxes") as f64;
    // 1,460 samples: a standard deviation of 2.6 %, and six of them.
    assert!((found / wanted - 1.0).abs() < 0.16, "{found} bytes of {wanted}");
    drop(kept);
    let limit = Instant::now() + Duration::from_secs(60);
    while sum(&mut guard.profile().unwrap(), "inuse_space", "keep_boxes") != 0 {
        assert!(Instant::now() < limit, "blocks that were freed are in use");
    }
}

#[test]
fn what_is_young_does_not_count_as_in_use() {
    let _alone = alone();
    let guard = guard(1);
    let old = keep_boxes();
    thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let young = keep_boxes();
    guard.stop().unwrap();
    let all = sum(&mut guard.profile().unwrap(), "inuse_space", "keep_boxes");
    let mut profile = guard.profile_in_use_for(begun.elapsed() + Duration::from_millis(100)).unwrap();
    assert_eq!(2 * sum(&mut profile, "inuse_space", "keep_boxes"), all);
    assert_eq!(sum(&mut profile, "alloc_space", "keep_boxes"), all);
    let account: Vec<&str> = profile.comments().filter(|line| line.starts_with("onstack.memory ")).collect();
    assert!(account.len() > 3 && account[0].ends_with(" of=resident"), "{account:?}");
    pprof::read(&profile.to_bytes());
    drop((old, young));
}

/// Who keeps the memory: by the request that it was allocated for.
#[test]
fn blocks_have_the_labels_under_which_they_were_made() {
    let _alone = alone();
    let guard = guard(1);
    let labels = |name: &str| Labels::new([("request", name)]).unwrap();
    let (one, two) = (labels("one"), labels("two"));
    let kept = (one.scope(keep_boxes), two.scope(keep_boxes), two.scope(keep_boxes));
    guard.stop().unwrap();
    let mut profile = guard.profile().unwrap();
    profile.show("inuse_space").unwrap();
    // `scope` itself allocates nothing of the request's.
    let of_one = (ROUNDS * (1000 + size_of::<Box<[u8]>>())) as i64;
    let by_request = profile.by_label("request");
    let of =
        |name: &str| by_request.values.iter().find(|(value, _)| value.as_deref() == Some(name)).map(|&(_, sum)| sum);
    assert_eq!((of("one"), of("two")), (Some(of_one), Some(2 * of_one)), "{by_request:?}");
    profile.retain_label("request", |value| value == Some("one"));
    assert_eq!(sum(&mut profile, "inuse_space", "keep_boxes"), of_one);
    drop(kept);
}

#[test]
fn what_a_heap_profile_cannot_be_is_refused() {
    let _alone = alone();
    let running = guard(1 << 20);
    let heap = || ProfilerGuardBuilder::default().clock(Clock::Heap);
    assert!(matches!(heap().build(), Err(Error::Sessions)));
    drop(running);
    assert!(matches!(heap().frequency(99).build(), Err(Error::Frequency | Error::Options(_))));
    assert!(matches!(heap().heap_interval(0).build(), Err(Error::Options(_))));
    assert!(matches!(heap().heap_objects(1 << 21).build(), Err(Error::Options(_))));
    assert!(matches!(ProfilerGuardBuilder::default().heap_interval(9).build(), Err(Error::Options(_))));
    drop(heap().build().unwrap());
}
