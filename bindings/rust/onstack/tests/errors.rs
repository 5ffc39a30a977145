// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong options: a word and a text for each, and nothing left behind.

mod common;

use common::{action, alone, own_threads};
use onstack::{Error, Options, ProfilerGuard, ProfilerGuardBuilder, Session};

/// The error's word, as `Debug` has it.
fn word(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

fn refused(options: Options) -> Error {
    let before = action(libc::SIGPROF);
    let error = Session::start(options, |_| {}).expect_err("these options are wrong");
    assert_eq!(action(libc::SIGPROF), before);
    assert_eq!(own_threads(), 0);
    assert!(error.to_string().len() > 20, "{error}");
    error
}

#[test]
fn each_wrong_option_has_its_word_and_is_named() {
    let _alone = alone();
    let new = Options::new;
    let cases = [
        ("Frequency", "frequency", new().frequency(0)),
        ("Frequency", "frequency", new().frequency(-1)),
        ("Frequency", "frequency", new().frequency(10_001)),
        ("Options", "max_depth", new().max_depth(0)),
        ("Options", "max_depth", new().max_depth(1025)),
        ("Options", "buffer_bytes", new().buffer_bytes(0)),
        ("Options", "buffer_bytes", new().buffer_bytes(u32::MAX)),
        ("Options", "label_bytes", new().label_bytes(4097)),
        ("Unwinder", "unwinder", new().unwinder("no such unwinder")),
        ("Unwinder", "unwinder", new().unwinder("pc\0only")),
        ("Signal", "signal", new().signal(libc::SIGKILL)),
        ("Signal", "signal", new().signal(0)),
        ("Signal", "signal", new().signal(65)),
        ("Options", "thread_filter", new().thread_filter(|_, _| true)),
    ];
    for (expected, option, options) in cases {
        let error = refused(options.clone());
        assert_eq!(word(&error), expected, "{options:?}: {error}");
        assert!(error.to_string().starts_with(&format!("{option}: ")), "{error}");
    }
}

#[test]
fn the_guard_refuses_the_same() {
    let _alone = alone();
    for frequency in [0, -5, 10_001] {
        assert!(matches!(ProfilerGuard::new(frequency), Err(Error::Frequency)));
    }
    let unwinder = ProfilerGuardBuilder::default().unwinder("none").build();
    assert!(matches!(unwinder, Err(Error::Unwinder)));
    drop(ProfilerGuard::new(10_000).unwrap());
    drop(ProfilerGuard::new(1).unwrap());
}

#[test]
fn the_ninth_session_is_refused_and_the_eight_go_on() {
    let _alone = alone();
    let mut guards: Vec<_> = (0..8).map(|_| ProfilerGuard::new(19).unwrap()).collect();
    assert!(matches!(ProfilerGuard::new(19), Err(Error::Sessions)));
    assert!(guards.iter().all(|guard| guard.stats().unwrap().running));
    guards.pop();
    drop(ProfilerGuard::new(19).unwrap());
}
