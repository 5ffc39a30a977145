// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a handler and a pusher hold while nothing is asked of them and nothing is sent. Alone in its program: the memory is
//! the process's.
#![cfg(all(feature = "axum", feature = "hyper", feature = "push"))]

mod common;
#[path = "common/service.rs"]
mod service;

use std::fs;
use std::time::Duration;

use common::{eventually, threads, Ingest, Reply};
use onstack::ProfilerGuard;
use onstack_http::{Handler, PushOptions, Pusher};
use service::{get, serve, Burning};

const MOST: i64 = 2 << 20;

/// Bytes of anonymous memory that the process has. Not after names were looked up: what that takes and gives back, malloc keeps.
fn resident() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
}

/// Bytes that were allocated and not freed.
fn allocated() -> i64 {
    // SAFETY: reads malloc's own numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as i64
}

#[test]
fn idle_is_cheap() {
    let _burning = Burning::begin();
    let (address, server) = (serve(Handler::new()), Ingest::new(|_| Reply::Take));
    assert_eq!(get(address, "/?seconds=x").status(), 400);

    let before = resident();
    // The first session makes tables of the program's size, which all share.
    let _first = ProfilerGuard::new(19).unwrap();
    let (tables, drains) = (resident() - before, threads("onstack-"));
    let before = resident();
    let options = PushOptions::new(server.url(), "test").interval(Duration::from_secs(1));
    let pusher = Pusher::start(options.profile(|builder| builder.frequency(19))).unwrap();
    let begun = resident() - before;
    assert!(begun < MOST, "a pusher that has only begun takes {begun} bytes");
    eventually("nothing is sent", || pusher.stats().sent > 0);

    let before = allocated();
    for _ in 0..3 {
        let sent = pusher.stats().sent;
        eventually("nothing is sent", || pusher.stats().sent > sent);
        drop(server.taken());
        eventually("the request's thread is left", || threads("onstack-send") == 0);
    }
    // The next profile may be in the making at this very moment.
    let mut grown = MOST;
    eventually("a pusher that goes on grows", || {
        grown = allocated() - before;
        grown < MOST / 4
    });
    assert_eq!(pusher.stop().waiting, 0);
    eventually("threads are left", || threads("onstack-") == drains);

    let before = allocated();
    for _ in 0..3 {
        get(address, "/?seconds=0.2").profile();
        eventually("threads are left", || threads("onstack-") == drains);
    }
    let held = allocated() - before;
    assert!(held < MOST / 4, "a handler that is not asked holds {held} bytes");
    println!("the first session takes {tables} bytes, a pusher {begun} bytes, {grown} more after three profiles; a handler keeps {held}");
}
