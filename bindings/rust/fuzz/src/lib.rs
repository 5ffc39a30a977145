// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done with each input, by libFuzzer (`fuzz_targets`) and by the replay (`tests/replay.rs`). A finding is a panic
//! that gets here, a crash, a hang, or a broken promise.

use std::fmt::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;

use onstack_profile::Profile;

mod beside;
mod command;
mod drawn;
mod message;

pub use beside::beside;
pub use command::{diff, program, status};
pub use drawn::drawn;

// Of the command line, under the names that its files call each other by.
#[path = "../../onstack-cli/src/diff_graph.rs"]
mod diff_graph;
#[allow(dead_code)]
#[path = "../../onstack-cli/src/failure.rs"]
mod failure;
#[allow(dead_code)]
#[path = "../../onstack-cli/src/program.rs"]
mod program;
#[allow(dead_code)]
#[path = "../../onstack-cli/src/status.rs"]
mod status;
#[allow(dead_code)]
#[path = "../../onstack-cli/src/timeline/mod.rs"]
mod timeline;
#[allow(dead_code)]
#[path = "../../onstack-cli/src/unit.rs"]
mod unit;
// The page's data, without the options of `view`.
#[path = "../../onstack-cli/src/view/data.rs"]
mod data;
#[path = "../../onstack-cli/src/view/encode.rs"]
mod encode;
#[path = "../../onstack-cli/src/view/times.rs"]
mod times;

/// Every form in which the command line shows a profile.
fn show(profile: &Profile) {
    let mut text = String::new();
    write!(text, "{:.10}{}{}", profile.top(), profile.tree().display(0, 0.0), profile.summary()).unwrap();
    write!(text, "{}", profile.tree().display(3, 0.01)).unwrap();
    profile.flamegraph(Vec::new()).unwrap_or_default();
    let (_, _, comments) = (profile.start(), profile.duration(), profile.comments().count());
    assert!(comments <= profile.to_bytes().len());
}

fn folded_of(profile: &Profile) -> String {
    let mut text = Vec::new();
    profile.folded(&mut text).expect("a vector takes all");
    String::from_utf8(text).expect("names are text")
}

/// A pprof profile of any content, as the command line reads it from a file: refused, or shown in every form; and what is
/// written of it is read again as the same.
pub fn profile(data: &[u8]) {
    if data.starts_with(&[0x1f, 0x8b]) && data.len() > 512 {
        return; // gzip makes half a gigabyte of that, which is flate2's business
    }
    let Ok(profile) = Profile::read(data) else { return };
    show(&profile);
    let mut packed = Vec::new();
    profile.write_pprof(&mut packed).expect("a vector takes all");
    let again = Profile::read(&packed[..]).expect("what was written is read");
    assert_eq!(again.to_bytes(), profile.to_bytes());
    assert_eq!(again.summary(), profile.summary());
    <onstack_pprof_compat::protos::Profile as onstack_pprof_compat::protos::Message>::decode(&profile.to_bytes()[..])
        .expect("another codec reads what was written");
    let text = folded_of(&profile);
    assert!(text.lines().all(|line| line.rsplit_once(' ').is_some_and(|(_, number)| number.parse::<i64>().is_ok())));
}

/// Folded stacks of any content: refused, or shown; and written and read they are the same from then on.
pub fn folded(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(profile) = Profile::from_folded(text) else { return };
    show(&profile);
    let once = folded_of(&profile);
    if let Ok(again) = Profile::from_folded(&once) {
        assert_eq!(folded_of(&again), once);
    }
}

/// A file that a profile names, of any content: its debug information is read for some addresses. Panics of the readers
/// are caught in the library, on purpose; one that leaves it is a finding.
pub fn debug_file(data: &[u8]) -> Option<Profile> {
    let path = own_file("object")?;
    std::fs::write(&path, data).expect("the temporary directory can be written");
    let id = build_id(data)?;
    let message = message::of_file(&path.to_string_lossy(), &id);
    let mut profile = Profile::read(&message[..]).expect("the message is sound");
    // libFuzzer's hook would end the program at a panic that the library expects.
    #[cfg(feature = "libfuzzer")]
    std::panic::set_hook(Box::new(|_| ()));
    if catch_unwind(AssertUnwindSafe(|| profile.symbolize())).is_err() {
        eprintln!("a panic has left Profile::symbolize");
        std::process::abort();
    }
    let shown = catch_unwind(AssertUnwindSafe(|| show(&profile)));
    if shown.is_err() {
        eprintln!("a symbolized profile cannot be shown");
        std::process::abort();
    }
    Some(profile)
}

fn build_id(data: &[u8]) -> Option<String> {
    use object::Object;
    let file = object::read::elf::ElfFile64::<object::NativeEndian>::parse(data).ok()?;
    Some(file.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A name of this process' own in the temporary directory.
fn own_file(name: &str) -> Option<PathBuf> {
    let directory = std::env::temp_dir().join(format!("onstack-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join(name))
}
