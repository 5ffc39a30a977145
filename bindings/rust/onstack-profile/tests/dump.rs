// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where every thread is, while some wait.

mod pprof;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use onstack::Error;

#[inline(never)]
fn waits_for_work(work: &mpsc::Receiver<()>) {
    let _ = std::hint::black_box(work.recv()); // no tail call
}

#[test]
fn a_dump_names_threads_calls_and_lines() {
    let worker = |_| {
        let (give, take) = mpsc::channel();
        let spawned = thread::Builder::new().name("idle".into()).spawn(move || waits_for_work(&take)).unwrap();
        (give, spawned)
    };
    let (give, threads): (Vec<mpsc::Sender<()>>, Vec<_>) = (0..3).map(worker).unzip();
    thread::sleep(Duration::from_millis(50));
    let text = match onstack_profile::dump() {
        Err(Error::Clock) => return, // an emulator
        text => text.unwrap(),
    };
    let mut profile = onstack_profile::dump_profile().unwrap();
    drop(give);
    threads.into_iter().for_each(|thread| thread.join().unwrap());

    let group = text.split("\n\n").find(|group| group.contains("waits_for_work")).expect(&text);
    assert_eq!(group.matches("\"idle\": blocked wait=futex on=0x").count(), 3, "{text}");
    assert!(group.contains("dump::waits_for_work at ") && group.contains("tests/dump.rs:"), "{group}");
    assert!(text.starts_with("onstack dump of process ") && text.contains("onstack_dump"), "{text}");

    pprof::read(&profile.to_bytes());
    profile.show("threads").unwrap();
    let top = profile.top();
    let waiting = top.entries.iter().find(|entry| entry.name.contains("waits_for_work")).expect("it waits");
    assert_eq!(waiting.cum, 3, "{top}");
}
