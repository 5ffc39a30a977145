// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preload library that the command carries: where it is unpacked, and where it is not loaded from.
#![cfg(feature = "preload")]

mod pprof;

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Not below the repository: whoever cloned it may share it with a group.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("onstack-carried-{name}-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        Self(place)
    }

    fn record(&self, program: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
        command.env_remove("ONSTACK_PRELOAD").env("XDG_CACHE_HOME", self.0.join("cache"));
        command.args(["record", "-F", "499", "-o"]).arg(self.profile()).arg("--").args(program).output().unwrap()
    }

    fn profile(&self) -> PathBuf {
        self.0.join("profile.pb.gz")
    }

    fn library(&self) -> PathBuf {
        let cache = fs::read_dir(self.0.join("cache/onstack")).unwrap();
        let builds: Vec<_> = cache.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(builds.len(), 1, "{builds:?}");
        builds[0].join("libonstack-preload.so")
    }

    /// Something else comes first where it is installed.
    fn installed() -> bool {
        let places = ["/usr/local/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
        let there = places.iter().any(|place| Path::new(place).join("libonstack-preload.so").exists());
        if there {
            eprintln!("SKIPPED: an installed library comes first: the carried one was NOT tried");
        }
        there
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const BUSY: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"];

#[test]
fn a_command_without_an_installed_library_records() {
    let place = Place::new("records");
    if Place::installed() {
        return;
    }
    let ended = place.record(&BUSY);
    assert!(ended.status.success(), "{}", message(&ended));
    let profile = pprof::read(&fs::read(place.profile()).unwrap());
    assert!(profile.summary().total > 0, "{}", message(&ended));
    let library = place.library();
    for directory in [library.parent().unwrap(), &place.0.join("cache/onstack")] {
        assert_eq!(fs::metadata(directory).unwrap().mode() & 0o7777, 0o700, "{}", directory.display());
    }
    assert_eq!(fs::metadata(&library).unwrap().mode() & 0o7777, 0o600);
    // It is written once.
    let before = fs::metadata(&library).unwrap().ino();
    assert!(place.record(&["true"]).status.success());
    assert_eq!(fs::metadata(&library).unwrap().ino(), before);
}

#[test]
fn what_is_not_the_carried_library_is_replaced_before_it_is_loaded() {
    let place = Place::new("replaced");
    if Place::installed() {
        return;
    }
    assert!(place.record(&["true"]).status.success());
    let library = place.library();
    let good = fs::read(&library).unwrap();
    let other = place.0.join("other.so");
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(&other, &changed).unwrap();
    let replace = |how: &dyn Fn()| {
        fs::remove_file(&library).unwrap();
        how();
        let ended = place.record(&BUSY);
        (ended.status.success(), message(&ended))
    };
    for how in [
        &(|| fs::write(&library, &changed).unwrap()) as &dyn Fn(),
        &(|| fs::write(&library, &good[..100]).unwrap()),
        &(|| {
            fs::write(&library, &good).unwrap();
            fs::set_permissions(&library, fs::Permissions::from_mode(0o666)).unwrap();
        }),
    ] {
        let (success, said) = replace(how);
        assert!(success, "{said}");
        assert_eq!(fs::read(&library).unwrap(), good);
        assert_eq!(fs::metadata(&library).unwrap().mode() & 0o7777, 0o600);
    }
    // A link is neither followed nor loaded through, to the right bytes neither.
    for target in [&other, Path::new(env!("CARGO_BIN_EXE_onstack"))] {
        let (success, said) = replace(&|| symlink(target, &library).unwrap());
        assert!(!success && said.contains("symbolic link"), "{said}");
        assert_eq!(fs::read(&other).unwrap(), changed);
    }
}

#[test]
fn a_place_that_is_not_only_the_users_is_refused() {
    let place = Place::new("refused");
    if Place::installed() {
        return;
    }
    let cache = place.0.join("cache");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let refused = |why: &str| {
        let ended = place.record(&["true"]);
        let said = message(&ended);
        assert!(
            ended.status.code() == Some(1) && said.contains(why) && said.contains("--preload FILE"),
            "{why}: {said}"
        );
        assert!(!place.profile().exists());
    };
    fs::create_dir(&cache).unwrap();
    mode(&cache, 0o777);
    refused("others may write there");
    mode(&cache, 0o755);
    mode(&place.0, 0o775);
    refused("others may write there");
    mode(&place.0, 0o755);
    fs::create_dir(cache.join("onstack")).unwrap();
    mode(&cache.join("onstack"), 0o755);
    refused("chmod 700");
    fs::remove_dir(cache.join("onstack")).unwrap();
    let elsewhere = place.0.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    mode(&elsewhere, 0o700);
    symlink(&elsewhere, cache.join("onstack")).unwrap();
    refused("it is no directory");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}
