// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forms that published users of pprof-rs write. What has to be written in another way stands in docs/MIGRATING.md.

mod common;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use common::{alone, burn};
use onstack_pprof_compat as pprof;

#[test]
fn unresolved_stacks_have_addresses_and_become_named_ones() {
    let _alone = alone();
    let guard = pprof::ProfilerGuard::new(199).unwrap();
    std::thread::Builder::new()
        .name("burner".into())
        .spawn(|| burn(Duration::from_millis(600)))
        .unwrap()
        .join()
        .unwrap();
    guard.stop().unwrap();
    let code = common::heavy as fn(u64) -> u64 as usize;
    let unresolved = guard.report().build_unresolved().unwrap();
    let mut work = unresolved.data.keys().filter(|f| (f.frames[0].ip() as usize).abs_diff(code) < 1 << 16);
    let stack = work.next().expect("a sample of the work");
    assert_eq!(&stack.thread_name[0..stack.thread_name_length], b"burner");
    let frames: pprof::Frames = stack.clone().into();
    assert_eq!((frames.thread_name.as_str(), frames.thread_id), ("burner", stack.thread_id));
    assert_eq!(frames.frames.len(), stack.frames.len());
    let names: Vec<String> = frames.frames.iter().flatten().map(pprof::Symbol::name).collect();
    assert!(names.iter().any(|name| name.ends_with("::burn")), "{names:?}");
    let none = pprof::UnresolvedFrames { frames: Vec::new(), ..stack.clone() };
    assert!(pprof::Frames::from(none).frames.is_empty());
}

#[test]
fn reports_can_be_made_by_a_program() {
    let symbol = pprof::Symbol { name: Some(b"work".to_vec()), addr: None, lineno: None, filename: None };
    let frames = pprof::Frames {
        frames: vec![vec![symbol]],
        thread_name: "t".into(),
        thread_id: 1,
        sample_timestamp: SystemTime::UNIX_EPOCH,
        ..Default::default()
    };
    let timing =
        pprof::ReportTiming { frequency: 100, start_time: SystemTime::now(), duration: Duration::from_secs(1) };
    let report = pprof::Report::new(HashMap::from([(frames, 3)]), timing);
    let top = report.top();
    assert_eq!((top.get("work").map(|entry| entry.flat), top.unit.as_str()), (Some(30_000_000), "nanoseconds"));
}

#[cfg(all(feature = "prost-codec", not(feature = "protobuf-codec")))]
#[test]
fn messages_have_the_names_of_pprof_rs() {
    let report = pprof::Report::new(HashMap::new(), Default::default());
    let profile = report.pprof().unwrap();
    let kinds: Vec<_> = profile.sample_type.iter().map(|kind| &profile.string_table[kind.ty as usize]).collect();
    assert_eq!(kinds, ["samples", "cpu"]);
}
