// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of known work.

mod common;
mod pprof;

use std::thread;
use std::time::Duration;

use common::{action, alone, burn, own_threads};
use onstack_pprof_compat::{Error, ProfilerGuard, ProfilerGuardBuilder, Report};
use onstack_profile::{Profile, Top};

const WORK: Duration = Duration::from_millis(600);

/// Sum over the functions whose path ends like that.
fn cum(top: &Top, name: &str) -> f64 {
    top.entries.iter().filter(|entry| entry.name.ends_with(name)).map(|entry| entry.cum as f64).sum()
}

/// What its writer makes of it, by google/pprof and profile servers.
fn assert_sound(report: &Report) {
    let mut file = Vec::new();
    report.write_pprof(&mut file).unwrap();
    assert_eq!(pprof::check(&file).and_then(Result::err), None);
}

fn folded(report: &Report) -> String {
    let mut bytes = Vec::new();
    report.folded(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn shares_are_those_of_the_work() {
    let _alone = alone();
    let guard = ProfilerGuard::new(199).unwrap();
    let (heavy, light) = burn(3 * WORK);
    guard.stop().unwrap();
    let report = guard.report().build().unwrap();
    assert_sound(&report);
    let top = report.top();

    let total = (heavy + light).as_secs_f64();
    let truth = heavy.as_secs_f64() / total;
    let (heavy, light) = (cum(&top, "::heavy"), cum(&top, "::light"));
    let share = heavy / (heavy + light);
    assert!((share - truth).abs() < 0.1, "{share} of the samples, {truth} of the time\n{top}");

    let seen = (heavy + light) / 1e9 / total;
    assert!((0.8..1.15).contains(&seen), "{seen} of the time was seen\n{top}");
    let callers = cum(&top, "::burn") / (heavy + light);
    assert!(callers > 0.95, "{callers} of the stacks have the caller\n{top}");
    assert!(top.named_share() > 0.8, "{top}");
}

#[test]
fn stacks_begin_with_the_thread_and_go_from_the_root_to_the_leaf() {
    let _alone = alone();
    let guard = ProfilerGuard::new(199).unwrap();
    thread::Builder::new().name("burner".into()).spawn(|| burn(WORK)).unwrap().join().unwrap();
    let text = folded(&guard.report().build().unwrap());
    let line = text.lines().find(|line| line.starts_with("burner;") && line.contains("::heavy")).expect(&text);
    let (burn, heavy) = (line.find("::burn").expect(line), line.find("::heavy").unwrap());
    assert!(burn < heavy, "{line}");
    assert!(line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap() > 0, "{line}");
}

#[cfg(all(feature = "prost-codec", not(feature = "protobuf-codec")))]
#[test]
fn inlined_functions_files_and_lines_are_known() {
    let _alone = alone();
    let guard = ProfilerGuard::new(199).unwrap();
    burn(WORK);
    let profile = guard.report().build().unwrap().pprof().unwrap();
    let text = |index: i64| profile.string_table[index as usize].as_str();
    let function = |id: u64| profile.function.iter().find(|function| function.id == id).unwrap();
    let name = |line: &onstack_pprof_compat::protos::Line| text(function(line.function_id).name);

    let inlined = profile.location.iter().find(|location| {
        location.line.len() >= 2
            && name(&location.line[0]).ends_with("mix")
            && name(&location.line[1]).ends_with("::heavy")
    });
    let location = inlined.expect("a place in `mix` inlined into `heavy`");
    for line in &location.line[..2] {
        assert!(text(function(line.function_id).filename).ends_with("common/mod.rs"));
        assert!(line.line > 0);
    }
    assert_ne!(location.mapping_id, 0);
    assert!(profile.period > 0 && profile.time_nanos > 0 && profile.duration_nanos > 0);
}

#[test]
fn a_report_while_running_sees_what_was_and_goes_on() {
    let _alone = alone();
    let guard = ProfilerGuard::new(199).unwrap();
    burn(WORK / 2);
    assert!(common::eventually(|| guard.report().build().unwrap().top().total > 0));
    let first = guard.report().build().unwrap().top().total;
    burn(WORK);
    guard.stop().unwrap();
    let second = guard.report().build().unwrap().top().total;
    assert!(second > 2 * first, "{first}, then {second}");
}

#[test]
fn a_report_outlives_its_guard_and_goes_through_pprof() {
    let _alone = alone();
    let guard = ProfilerGuard::new(199).unwrap();
    burn(WORK / 2);
    guard.stop().unwrap();
    let report = guard.report().build().unwrap();
    drop(guard);
    let mut file = Vec::new();
    report.write_pprof(&mut file).unwrap();
    assert_eq!(pprof::check(&file).and_then(Result::err), None);
    let back = Profile::read(&file[..]).unwrap();
    assert_eq!(back.top(), report.top());
    let mut lines = Vec::new();
    back.folded(&mut lines).unwrap();
    assert_eq!(String::from_utf8(lines).unwrap(), folded(&report));
    assert!(cum(&back.top(), "::heavy") > 0.0);
}

#[cfg(feature = "flamegraph")]
#[test]
fn the_flame_graph_shows_the_function() {
    let _alone = alone();
    let guard = ProfilerGuard::new(199).unwrap();
    assert!(matches!(guard.report().build().unwrap().flamegraph(std::io::sink()), Err(Error::Empty)));
    burn(WORK / 2);
    guard.stop().unwrap();
    let mut picture = Vec::new();
    guard.report().build().unwrap().flamegraph(&mut picture).unwrap();
    let picture = String::from_utf8(picture).unwrap();
    assert!(picture.starts_with("<?xml") && picture.contains("::heavy ("), "{picture}");
}

extern "C" fn of_the_host(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

#[test]
fn the_action_that_was_found_comes_back() {
    let _alone = alone();
    // SAFETY: a handler that does nothing, and a structure that is filled in.
    unsafe {
        let mut host: libc::sigaction = std::mem::zeroed();
        host.sa_sigaction = of_the_host as extern "C" fn(_, _, _) as usize;
        host.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaddset(&mut host.sa_mask, libc::SIGUSR1);
        assert_eq!(libc::sigaction(libc::SIGPROF, &host, std::ptr::null_mut()), 0);
    }
    let before = action(libc::SIGPROF);
    assert_eq!(before.handler, of_the_host as extern "C" fn(_, _, _) as usize);

    let first = ProfilerGuard::new(99).unwrap();
    let during = action(libc::SIGPROF);
    assert_ne!(during.handler, before.handler);
    assert_ne!(during.flags & libc::SA_ONSTACK as libc::c_ulong, 0);
    let second = ProfilerGuard::new(49).unwrap();
    drop(first);
    assert_eq!(action(libc::SIGPROF), during, "the second guard still needs it");
    second.stop().unwrap();
    assert_eq!(action(libc::SIGPROF), before);
    drop(second);
    assert_eq!(action(libc::SIGPROF), before);
    assert_eq!(own_threads(), 0);

    reset();
    let default = action(libc::SIGPROF);
    assert_eq!(default.handler, libc::SIG_DFL);
    drop(ProfilerGuard::new(99).unwrap());
    assert_eq!(action(libc::SIGPROF), default);
}

fn reset() {
    // SAFETY: back to what the process began with, the default action.
    unsafe { libc::signal(libc::SIGPROF, libc::SIG_DFL) };
}

#[test]
fn two_guards_have_their_own_rates() {
    let _alone = alone();
    let slow = ProfilerGuard::new(50).unwrap();
    let fast = ProfilerGuard::new(200).unwrap();
    burn(5 * WORK);
    slow.stop().unwrap();
    fast.stop().unwrap();
    let (slow_stats, fast_stats) = (slow.stats().unwrap(), fast.stats().unwrap());
    let ratio = fast_stats.recorded as f64 / slow_stats.recorded as f64;
    assert!((3.3..4.8).contains(&ratio), "{ratio}: {slow_stats:?} {fast_stats:?}");
    let periods = [slow_stats, fast_stats].map(|stats| stats.period.duration());
    assert_eq!(periods, [20, 5].map(|ms| Some(Duration::from_millis(ms))));
    for guard in [&slow, &fast] {
        let top = guard.report().build().unwrap().top();
        let share = cum(&top, "::heavy") / (cum(&top, "::heavy") + cum(&top, "::light"));
        assert!((0.55..0.92).contains(&share), "{share}\n{top}");
    }
}

#[test]
fn the_accounting_balances() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(500).with(|options| options.max_depth(4)).build().unwrap();
    burn(WORK / 2);
    guard.stop().unwrap();
    assert_sound(&guard.report().build().unwrap()); // of cut stacks
    let s = guard.stats().unwrap();
    let dropped = s.dropped_ring_full + s.dropped_no_stack + s.dropped_unwinder + s.dropped_stopping;
    assert_eq!(s.ticks, s.recorded + s.unattributed + dropped, "{s:?}");
    assert_eq!(s.samples, s.delivered, "{s:?}");
    assert!(s.recorded > 0 && !s.running, "{s:?}");
    // These stacks are deeper than four frames.
    assert!(s.truncated_by(onstack::Truncation::Depth) > s.samples / 2, "{s:?}");
    assert!(matches!(guard.stop(), Err(Error::Stopped)));
}

#[test]
fn a_timeline_says_when_samples_were_taken() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(199).with(|options| options.timeline(true)).build().unwrap();
    let begun = std::time::SystemTime::now();
    burn(WORK / 2);
    thread::sleep(WORK / 2);
    burn(WORK / 2);
    let lasted = begun.elapsed().unwrap().as_micros() as i64;
    guard.stop().unwrap();
    let mut file = Vec::new();
    guard.profile().unwrap().write_pprof(&mut file).unwrap();
    assert_eq!(pprof::check(&file).and_then(Result::err), None);
    let profile = Profile::read(&file[..]).unwrap();
    let view = onstack_profile::view::View::new(&profile);
    let (mut moments, mut ticks) = (Vec::new(), 0);
    view.each(|seen| {
        ticks += seen.values[0] as u64;
        moments.extend(seen.times.iter());
    });
    assert_eq!(moments.iter().map(|moment| moment.weight).sum::<u64>(), ticks, "each tick has its time");
    assert!(moments.iter().all(|moment| (0..lasted + 50_000).contains(&moment.at)), "{lasted}: {moments:?}");
    moments.sort_by_key(|moment| moment.at);
    let widest = moments.windows(2).max_by_key(|pair| pair[1].at - pair[0].at).unwrap();
    let gap = widest[1].at - widest[0].at;
    assert!(gap >= (WORK / 2).as_micros() as i64 * 9 / 10, "the sleep is a gap: {gap}");
    let kept = format!("onstack.timeline kept={} lost=0", moments.len());
    assert!(profile.comments().any(|comment| comment == kept), "{kept}");
}
