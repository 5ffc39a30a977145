// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the command writes: whole or absent, for their owner only, and never through a link that somebody planted.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{chown, symlink, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// An empty directory of the test's own.
fn directory(name: &str) -> PathBuf {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("output-{name}"));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).unwrap();
    fs::write(place.join("in.folded"), "main;hot 6\n").unwrap();
    place
}

/// Runs `flamegraph` in the directory. `$svg` stands for the command without the name of its output.
fn draw(place: &Path, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(place);
    command.env("svg", format!("{} flamegraph in.folded -o", env!("CARGO_BIN_EXE_onstack")));
    command.output().expect("a shell")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "in.folded")
        .collect();
    names.sort();
    names
}

fn is_whole(picture: &[u8]) -> bool {
    let text = String::from_utf8_lossy(picture);
    text.starts_with("<?xml") && text.trim_end().ends_with("</svg>")
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

#[test]
fn a_file_is_its_owners_only_whatever_the_umask() {
    for umask in ["000", "022", "377"] {
        let place = directory(&format!("umask-{umask}"));
        let output = draw(&place, &format!("umask {umask}; exec $svg out.svg"));
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(fs::metadata(place.join("out.svg")).unwrap().mode() & 0o7777, 0o600, "umask {umask}");
        assert!(is_whole(&fs::read(place.join("out.svg")).unwrap()));
        assert_eq!(names(&place), ["out.svg"]);
    }
}

/// Whoever has the former file open, or another name for it, keeps it as it was.
#[test]
fn a_file_that_is_there_is_replaced_and_not_written_into() {
    let place = directory("replaced");
    fs::write(place.join("out.svg"), "former").unwrap();
    fs::set_permissions(place.join("out.svg"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::hard_link(place.join("out.svg"), place.join("other name")).unwrap();
    let output = draw(&place, "exec $svg out.svg");
    assert!(output.status.success(), "{}", said(&output));
    assert!(is_whole(&fs::read(place.join("out.svg")).unwrap()));
    assert_eq!(fs::metadata(place.join("out.svg")).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::read(place.join("other name")).unwrap(), b"former");
    assert_eq!(names(&place), ["other name", "out.svg"]);
}

#[test]
fn a_link_is_neither_followed_nor_replaced() {
    for target in ["victim", "nothing"] {
        let place = directory(&format!("link-{target}"));
        fs::write(place.join("victim"), "precious").unwrap();
        symlink(target, place.join("out")).unwrap();
        let onstack = env!("CARGO_BIN_EXE_onstack");
        for script in [
            "exec $svg out".to_owned(),
            format!("exec {onstack} diff in.folded in.folded --flamegraph out"),
            // Refused before the program has run for hours.
            format!("exec {onstack} record --preload in.folded -o out -- touch ran"),
        ] {
            let output = draw(&place, &script);
            assert_eq!(output.status.code(), Some(1), "{script}: {}", said(&output));
            assert!(said(&output).contains("out: cannot write: it is a symbolic link"), "{script}: {}", said(&output));
            assert_eq!(names(&place), ["out", "victim"], "{script}");
            assert_eq!(fs::read(place.join("victim")).unwrap(), b"precious", "{script}");
            assert!(fs::symlink_metadata(place.join("out")).unwrap().is_symlink(), "{script}");
        }
    }
}

#[test]
fn what_cannot_be_written_whole_leaves_the_former_file_and_nothing_else() {
    let place = directory("full");
    fs::write(place.join("out.svg"), "former").unwrap();
    let output = draw(&place, "ulimit -f 1; exec $svg out.svg");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("out.svg: cannot write: File too large"), "{}", said(&output));
    assert_eq!(fs::read(place.join("out.svg")).unwrap(), b"former");
    assert_eq!(names(&place), ["out.svg"]);

    fs::create_dir(place.join("directory")).unwrap();
    for (name, why) in [("directory", "Is a directory"), ("missing/out.svg", "No such file"), ("/dev/full", "No space")]
    {
        let output = draw(&place, &format!("exec $svg {name}"));
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(said(&output).contains(&format!("{name}: cannot write: {why}")), "{}", said(&output));
    }
    assert_eq!(names(&place), ["directory", "out.svg"]);
}

#[test]
fn the_standard_output_has_names() {
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let place = directory("standard");
        let output = draw(&place, &format!("exec $svg {name}"));
        assert!(output.status.success() && is_whole(&output.stdout), "{name}: {}", said(&output));
        let output = draw(&place, &format!("echo before >file; {{ $svg {name}; echo after; }} >>file"));
        assert!(output.status.success(), "{name}: {}", said(&output));
        let text = fs::read_to_string(place.join("file")).unwrap();
        let picture = text.strip_prefix("before\n").and_then(|rest| rest.strip_suffix("after\n"));
        assert!(picture.is_some_and(|picture| is_whole(picture.as_bytes())), "{name}: {text:.40}");
        assert_eq!(names(&place), ["file"], "{name}");
    }
}

#[test]
fn descriptors_devices_and_pipes_are_written_to_as_they_are() {
    let place = directory("special");
    pipe(&place.join("pipe"));
    for script in ["$svg pipe & cat pipe; wait", "$svg /dev/fd/9 9>&1", "$svg /dev/stderr 2>&1"] {
        let output = draw(&place, script);
        assert!(output.status.success() && is_whole(&output.stdout), "{script}: {}", said(&output));
    }
    assert!(draw(&place, "exec $svg /dev/null").status.success());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(fs::symlink_metadata(place.join("pipe")).unwrap().file_type().is_fifo());
    assert_eq!(names(&place), ["pipe"]);
}

/// As the kernel's fs.protected_fifos has it, which is off on many machines.
#[test]
fn a_pipe_of_somebody_else_in_a_shared_directory_gets_nothing() {
    let place = directory("planted");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o1777)).unwrap();
    let planted = place.join("out.svg");
    pipe(&planted);
    if chown(&planted, Some(65534), None).is_err() {
        eprintln!("SKIPPED: only root can give a pipe to another user: a planted pipe was NOT tried");
        return;
    }
    // Both ends, so that no open waits.
    let reader = OpenOptions::new().read(true).write(true).open(&planted).unwrap();
    let output = draw(&place, "exec $svg out.svg");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("somebody else"), "{}", said(&output));
    let mut got = Vec::new();
    let other = File::open(&planted).unwrap();
    drop(reader);
    (&other).read_to_end(&mut got).unwrap();
    assert!(got.is_empty());
}

/// The program does what the preload would do in it.
#[test]
fn a_record_to_what_is_no_file_makes_none() {
    let (place, profile) = (directory("record"), directory("record-profile").join("profile"));
    let mut bytes = Vec::new();
    onstack_profile::Profile::from_folded("main;hot 6\n").unwrap().write_pprof(&mut bytes).unwrap();
    fs::write(&profile, bytes).unwrap();
    for (name, called) in [("-", "standard output"), ("/dev/stdout", "/dev/stdout"), ("/dev/null", "/dev/null")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
        command.args(["record", "--preload", "in.folded", "-o", name, "--", "sh", "-c"]);
        command.arg("stat -c %a \"${ONSTACK_PROFILE%/*}\" >&2; cp \"$0\" \"$ONSTACK_PROFILE\"").arg(&profile);
        let output = command.current_dir(&place).env("TMPDIR", &place).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", said(&output));
        // Nobody else may look for, or put, anything where the preload writes.
        assert!(said(&output).lines().any(|line| line == "700"), "{name}: {}", said(&output));
        assert!(said(&output).contains(&format!("wrote {called}\n")), "{name}: {}", said(&output));
        assert_eq!(onstack_profile::Profile::read(&output.stdout[..]).is_ok(), name != "/dev/null", "{name}");
        assert!(names(&place).is_empty(), "{name}: {:?}", names(&place));
    }
}
