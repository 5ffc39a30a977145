// SPDX-License-Identifier: MIT OR Apache-2.0
//! What google/pprof and profile servers say of a profile: the program in bindings/go/internal/checker, which is built once.

#![allow(dead_code)] // each test program uses a part

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use onstack_profile::Profile;

/// Nothing where there is no Go, or no repository around this package, and that is said.
fn checker() -> Option<&'static Path> {
    static ONCE: OnceLock<Option<PathBuf>> = OnceLock::new();
    ONCE.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    // Of this program's own: several are built and run at once, some with the same name.
    let program = std::env::current_exe().unwrap().with_extension("checker");
    let go = |source| {
        Command::new("go").args(["build", "-o"]).arg(&program).arg("./internal/checker").current_dir(source).output()
    };
    let Some(Ok(built)) = source().map(go) else {
        eprintln!("SKIPPED: Go or bindings/go/internal/checker is not here: profiles were NOT checked by google/pprof");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

/// Crates and examples lie at different depths below the repository.
fn source() -> Option<PathBuf> {
    let mut places = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|place| place.join("bindings/go"));
    places.find(|place| place.join("internal/checker").is_dir())
}

/// Builds it, which may take longer than a client waits for an answer.
pub fn prepare() {
    checker();
}

/// Whether their readers and checks take the profile, compressed or not, or why they do not; nothing where nobody can be
/// asked.
pub fn check(profile: &[u8]) -> Option<Result<(), String>> {
    let mut child = Command::new(checker()?).arg("-").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may have seen enough.
    let _ = child.stdin.take().unwrap().write_all(profile);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).trim_end().replace('\n', " ");
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

/// A profile that is theirs to take, as it is read here.
pub fn read(profile: &[u8]) -> Profile {
    assert_eq!(check(profile).and_then(Result::err), None);
    Profile::read(profile).unwrap()
}
