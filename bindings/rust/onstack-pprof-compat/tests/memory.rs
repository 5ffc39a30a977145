// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a report takes it gives back: debug information is not kept.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
use std::time::Duration;

use common::{alone, burn};
use onstack_pprof_compat::ProfilerGuard;

static IN_USE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size() as isize, Relaxed) + layout.size() as isize;
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn maps_of_files() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|line| line.contains('/')).count()
}

#[test]
fn a_report_gives_back_what_it_took() {
    let _alone = alone();
    let guard = ProfilerGuard::new(200).unwrap();
    burn(Duration::from_millis(400));
    guard.stop().unwrap();
    let files = maps_of_files();
    let before = IN_USE.load(Relaxed);
    for _ in 0..3 {
        PEAK.store(0, Relaxed);
        let report = guard.report().build().unwrap();
        assert!(!report.data.is_empty());
        let peak = PEAK.load(Relaxed) - before;
        drop(report);
        let kept = IN_USE.load(Relaxed) - before;
        assert!(peak > 100_000, "{peak}: the names came from somewhere else");
        assert!(kept < 4096, "{kept} bytes kept of {peak}");
        assert_eq!(maps_of_files(), files, "debug information is still mapped");
    }
}
