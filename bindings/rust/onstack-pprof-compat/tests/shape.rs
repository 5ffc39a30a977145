// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape that users of pprof-rs know, and what is new beside it.

mod common;
mod pprof;

use std::sync::mpsc::channel;
use std::time::Duration;

use common::{alone, burn};
use onstack::{Error, Options, Sample, Samples, Session, Sink};
use onstack_pprof_compat::{ProfilerGuard, ProfilerGuardBuilder};
use onstack_profile::Profile;

const WORK: Duration = Duration::from_millis(600);

/// What the writers make of it, by google/pprof and profile servers.
fn assert_sound(profile: &Profile) {
    assert_eq!(pprof::check(&profile.to_bytes()).and_then(Result::err), None);
}

fn ticks(report: &onstack_pprof_compat::Report) -> isize {
    report.data.values().sum()
}

#[test]
fn the_data_are_stacks_with_names_and_ticks() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(200).blocklist(&["no such library"]).build().unwrap();
    std::thread::Builder::new().name("burner".into()).spawn(|| burn(WORK)).unwrap().join().unwrap();
    guard.stop().unwrap();
    let report = guard.report().build().unwrap();
    assert_eq!(u64::try_from(ticks(&report)).unwrap(), guard.stats().unwrap().recorded);
    assert_eq!(report.timing.frequency, 200);
    assert!(report.timing.duration >= WORK && report.timing.start_time.elapsed().is_ok());

    // Some stack, not the one with the most ticks: after a wait of its own a single sample stands for many of them.
    let in_heavy = |frames: &&onstack_pprof_compat::Frames| {
        frames.frames[0].get(1).is_some_and(|symbol| symbol.name().ends_with("::heavy"))
    };
    let frames = report.data.keys().find(in_heavy).unwrap_or_else(|| panic!("{report:?}"));
    assert_eq!((frames.thread_name.as_str(), frames.thread_name_or_id().as_str()), ("burner", "burner"));
    assert_ne!(frames.thread_id, 0);
    let leaf = &frames.frames[0];
    assert!(leaf[0].name().ends_with("mix"), "{leaf:?}");
    assert!(leaf[0].filename().ends_with("common/mod.rs") && leaf[0].addr.is_some());
    // Line 0: code of the compiler's that belongs to none (DWARF 5, 6.2.2).
    assert!(report.data.keys().filter(in_heavy).any(|frames| frames.frames[0][0].lineno() > 0), "{report:?}");
    assert!(format!("{report:?}").lines().any(|line| line.starts_with("burner;") && line.contains("::burn;")));
}

#[test]
fn the_post_processor_changes_and_merges_stacks() {
    let _alone = alone();
    let guard = ProfilerGuard::new(200).unwrap();
    burn(WORK);
    guard.stop().unwrap();
    let whole = guard.report().build().unwrap();
    let change = |frames: &mut onstack_pprof_compat::Frames| {
        frames.thread_name = "pool".into();
        frames.thread_id = 0;
        frames.frames.retain(|frame| frame.iter().any(|symbol| symbol.name().contains("burn")));
        frames.frames.iter_mut().flatten().for_each(|symbol| symbol.lineno = None);
    };
    let report = guard.report().frames_post_processor(change).build().unwrap();
    assert_eq!(ticks(&report), ticks(&whole));
    assert!(report.data.len() < whole.data.len());
    assert_sound(&whole.profile());
    assert_sound(&report.profile());
    let mut folded = Vec::new();
    report.folded(&mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    assert!(folded.lines().all(|line| line.starts_with("pool") && !line.contains("heavy")), "{folded}");
}

/// The frame that says so stands in the profile alone: `data` is what the program made of it.
#[test]
fn a_stack_that_lost_all_its_frames_keeps_its_ticks() {
    let _alone = alone();
    let guard = ProfilerGuard::new(200).unwrap();
    burn(WORK / 2);
    guard.stop().unwrap();
    let report = guard.report().frames_post_processor(|frames| frames.frames.clear()).build().unwrap();
    assert_sound(&report.profile());
    let top = report.profile().top();
    assert_eq!((top.total, top.entries[0].name.as_str()), (guard.profile().unwrap().top().total, "[no frames]"));
}

#[test]
fn what_the_program_changes_is_what_is_written() {
    let _alone = alone();
    let guard = ProfilerGuard::new(200).unwrap();
    burn(WORK / 2);
    guard.stop().unwrap();
    let mut report = guard.report().build().unwrap();
    let before = report.profile();
    report.data = report.data.into_iter().map(|(frames, ticks)| (frames, 3 * ticks)).collect();
    assert_eq!(report.top().total, 3 * before.top().total);
    assert_sound(&report.profile());
    // Besides, what a report writes is what the guard writes by itself.
    assert_eq!(before.top(), guard.profile().unwrap().top());
    assert_eq!(before.summary(), guard.profile().unwrap().summary());
}

#[test]
fn unresolved_profiles_have_addresses_mappings_and_no_names() {
    let _alone = alone();
    let guard = ProfilerGuard::new(200).unwrap();
    burn(WORK / 2);
    guard.stop().unwrap();
    let report = guard.report().build_unresolved().unwrap();
    let code = common::heavy as fn(u64) -> u64 as usize as u64;
    let in_the_work =
        |frames: &onstack_pprof_compat::UnresolvedFrames| (frames.frames[0].ip() as u64).abs_diff(code) < 1 << 16;
    assert!(report.data.keys().any(|frames| in_the_work(frames) && frames.frames.len() > 3));
    let mut file = Vec::new();
    report.write_pprof(&mut file).unwrap();
    let back = Profile::read(&file[..]).unwrap().summary();
    assert_eq!((back.named, back.total), (0, report.profile().top().total));
    assert_eq!(pprof::check(&file).and_then(Result::err), None);
    assert!(back.total > 0 && back.files.iter().any(|(file, _)| file.starts_with("shape-")), "{back}");
}

/// Names take time in which nothing of the report was sampled.
#[test]
fn the_duration_ends_before_the_profile_is_written() {
    let _alone = alone();
    let guard = ProfilerGuard::new(200).unwrap();
    let report = guard.report().build_unresolved().unwrap();
    assert!(report.timing.duration <= report.profile().duration(), "{report:?}: {:?}", report.timing);
}

/// What is taken one after the other, while samples arrive, is all there is.
#[test]
fn report_and_clear_loses_nothing() {
    let _alone = alone();
    let guard = ProfilerGuard::new(1000).unwrap();
    let worker = std::thread::spawn(|| burn(3 * WORK));
    let mut taken = 0;
    while !worker.is_finished() {
        taken += ticks(&guard.report().build_and_clear().unwrap());
        let profile = guard.take_profile().unwrap();
        taken += profile.summary().total as isize / 1_000_000;
    }
    guard.stop().unwrap();
    taken += ticks(&guard.report().build_and_clear().unwrap());
    let stats = guard.stats().unwrap();
    assert_eq!(u64::try_from(taken).unwrap(), stats.recorded, "{stats:?}");
    assert!(stats.recorded > 200, "{stats:?}");
    assert_eq!(ticks(&guard.report().build().unwrap()), 0);
    guard.clear().unwrap();
}

#[test]
fn the_blocklist_leaves_out_and_counts() {
    let _alone = alone();
    let executable = std::env::current_exe().unwrap();
    let name = executable.file_name().unwrap().to_str().unwrap();
    let guard = ProfilerGuardBuilder::default().frequency(200).blocklist(&[name]).build().unwrap();
    burn(WORK);
    guard.stop().unwrap();
    let (kept, stats) = (ticks(&guard.report().build().unwrap()) as u64, guard.stats().unwrap());
    let summary = guard.profile().unwrap().summary();
    let blocked: u64 = summary.counters["blocklisted"].parse().unwrap();
    assert_eq!(kept + blocked, stats.recorded, "{summary}");
    assert!(blocked > stats.recorded * 3 / 4, "{blocked} of {stats:?}");
}

#[test]
fn labels_and_threads_are_as_asked() {
    let _alone = alone();
    let labels = [("service", "checkout"), ("zone", "a;b")];
    let builder = ProfilerGuardBuilder::default().frequency(200).with(|options| options.labels(&labels));
    let guard = builder.clone().with(|options| options.thread_names(false).thread_ids(false)).build().unwrap();
    burn(WORK / 2);
    guard.stop().unwrap();
    // By way of the report as well: it rebuilds its message.
    for profile in [guard.profile().unwrap(), guard.report().build().unwrap().profile()] {
        assert!(profile.summary().threads.is_empty(), "{}", profile.summary());
        assert_sound(&profile);
        let text = String::from_utf8_lossy(&profile.to_bytes()).into_owned();
        for part in ["service", "checkout", "zone", "a;b"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(profile.comments().any(|text| text.starts_with("onstack.stats ") && text.contains(" ticks=")));
    }
    for key in ["", "9", "a b", "thread"] {
        let refused = builder.clone().with(|options| options.labels(&[(key, "x")])).build();
        assert!(matches!(refused, Err(Error::Options(text)) if text.contains(&format!("{key:?}"))), "{key}");
    }
}

struct Every2nd(std::sync::mpsc::Sender<u64>, bool);

impl Sink for Every2nd {
    fn sample(&mut self, sample: &Sample<'_>) -> bool {
        self.1 = !self.1;
        self.1 && self.0.send(sample.frames()[0]).is_ok()
    }
}

#[test]
fn a_sink_of_ones_own_may_refuse() {
    let _alone = alone();
    let (sender, taken) = channel();
    let session = Session::start_with_sink(Options::new().frequency(200), Every2nd(sender, false)).unwrap();
    burn(WORK);
    session.stop().unwrap();
    let (stats, taken) = (session.stats().unwrap(), taken.try_iter().count() as u64);
    assert_eq!(stats.dropped_sink + taken, stats.delivered, "{stats:?}");
    assert!(taken > 20 && taken.abs_diff(stats.dropped_sink) <= 1, "{taken}, {stats:?}");
}

#[test]
fn samples_are_fetched_without_a_thread() {
    let _alone = alone();
    let mut samples = Samples::start(Options::new().frequency(200)).unwrap();
    assert_eq!(common::own_threads(), 0);
    assert!(samples.next().is_none());
    burn(WORK);
    let first: Vec<_> = samples.by_ref().collect();
    burn(WORK);
    samples.stop().unwrap();
    let second: Vec<_> = samples.by_ref().collect();
    let stats = samples.stats().unwrap();
    let at_first: u32 = first.iter().map(|sample| sample.weight).sum();
    let weight: u32 = first.iter().chain(&second).map(|sample| sample.weight).sum();
    assert!(at_first > 40, "{at_first}");
    assert_eq!(u64::from(weight), stats.recorded, "{stats:?}");
}

#[test]
fn generated_code_has_the_names_of_the_perf_map() {
    let _alone = alone();
    // SAFETY: new memory of our own; a loop goes in: mov rax, rdi; dec rax; jnz; ret.
    let code = unsafe {
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let page = libc::mmap(std::ptr::null_mut(), 4096, prot, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        #[cfg(target_arch = "x86_64")]
        let bytes = [0x48u8, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3];
        // subs x0, x0, 1; b.ne -4; ret
        #[cfg(target_arch = "aarch64")]
        let bytes = [0x00u8, 0x04, 0x00, 0xf1, 0xe1, 0xff, 0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6];
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), page.cast(), bytes.len());
        page
    };
    let map = std::path::PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
    std::fs::write(&map, format!("{:x} 10 generated loop\n", code as usize)).unwrap();
    // SAFETY: the code above, which takes a number and returns.
    let run: extern "C" fn(u64) = unsafe { std::mem::transmute(code) };
    let guard = ProfilerGuard::new(200).unwrap();
    run(600_000_000);
    guard.stop().unwrap();
    let top = guard.report().build().unwrap().top();
    std::fs::remove_file(map).unwrap();
    let share = top.get("generated loop").map_or(0.0, |entry| top.share(entry.flat));
    assert!(share > 0.7, "{top}");
}

/// The test above, run by a copy of this program whose debug information lies in a file beside it, and without that file.
#[test]
fn debug_information_may_lie_in_a_file_of_its_own() {
    let _alone = alone();
    let place = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("split");
    std::fs::create_dir_all(&place).unwrap();
    let (program, debug) = (place.join("program"), place.join("program.debug"));
    let _ = std::fs::remove_file(&program);
    let objcopy = |arguments: &[&std::ffi::OsStr]| {
        std::process::Command::new("objcopy").args(arguments).status().is_ok_and(|status| status.success())
    };
    let own = std::env::current_exe().unwrap();
    if !objcopy(&["--only-keep-debug".as_ref(), own.as_ref(), debug.as_ref()]) {
        eprintln!("SKIPPED: no objcopy (binutils): separate debug files were NOT tried");
        return;
    }
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    assert!(objcopy(&["--strip-debug".as_ref(), &link, own.as_ref(), program.as_ref()]));
    let run = || {
        let name = "the_data_are_stacks_with_names_and_ticks";
        std::process::Command::new(&program).args(["--exact", name]).output().unwrap()
    };
    let with = run();
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stdout));
    std::fs::remove_file(debug).unwrap();
    assert!(!run().status.success(), "names came from elsewhere, so this shows nothing");
}

#[test]
fn a_profile_of_addresses_gets_its_names_later() {
    let _alone = alone();
    let guard = ProfilerGuardBuilder::default().frequency(250).build().unwrap();
    let limit = std::time::Instant::now() + Duration::from_secs(20);
    while guard.stats().unwrap().recorded < 20 {
        assert!(std::time::Instant::now() < limit);
        burn(Duration::from_millis(50));
    }
    guard.stop().unwrap();
    let named = guard.profile().unwrap().top();
    let mut bytes = Vec::new();
    guard.report().build_unresolved().unwrap().write_pprof(&mut bytes).unwrap();
    let mut profile = onstack_profile::Profile::read(&bytes[..]).unwrap();
    let mut several = [profile.clone(), profile.clone()];
    assert!(profile.top().entries.iter().all(|entry| !entry.name.contains("heavy")));
    profile.symbolize();
    // Those that only a symbol table names have none here.
    let later = profile.top();
    let heavy = |top: &onstack_profile::Top| {
        let found = top.entries.iter().find(|entry| entry.name.ends_with("::heavy"));
        found.map(|entry| (entry.name.clone(), entry.cum))
    };
    assert!(heavy(&later).is_some() && heavy(&later) == heavy(&named), "{later}\n{named}");
    onstack_profile::Profile::symbolize_all(&mut several);
    let bytes = |profile: &onstack_profile::Profile| {
        let mut bytes = Vec::new();
        profile.write_pprof(&mut bytes).map(|()| bytes).unwrap()
    };
    assert!(several.iter().all(|each| bytes(each) == bytes(&profile)), "together it is the same as alone");
}
