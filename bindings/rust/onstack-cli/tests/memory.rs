// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack memory` as a person runs it, on profiles whose numbers are known.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use onstack_pprof_compat::protos::{Function, Line, Location, Message, Profile, Sample, ValueType};

fn memory(files: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack")).arg("memory").args(files).output().expect("the program runs")
}

/// A heap profile with so many bytes in use in each function, and the account of a process.
fn file(name: &str, in_use: &[(&str, i64)], account: &[&str]) -> String {
    let mut strings = ["", "inuse_space", "bytes"].map(String::from).to_vec();
    strings.extend(in_use.iter().map(|(name, _)| (*name).to_owned()));
    let comment = (0..account.len()).map(|at| (strings.len() + at) as i64).collect();
    strings.extend(account.iter().map(|line| format!("onstack.memory {line}")));
    let ids = 1..=in_use.len() as u64;
    let profile = Profile {
        sample_type: vec![ValueType { ty: 1, unit: 2 }],
        string_table: strings,
        function: ids.clone().map(|id| Function { id, name: id as i64 + 2, ..Function::default() }).collect(),
        location: ids
            .map(|id| Location { id, line: vec![Line { function_id: id, ..Line::default() }], ..Location::default() })
            .collect(),
        sample: (1u64..)
            .zip(in_use)
            .map(|(id, (_, bytes))| Sample { location_id: vec![id], value: vec![*bytes], ..Sample::default() })
            .collect(),
        comment,
        ..Profile::default()
    };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{name}"));
    fs::write(&path, profile.encode_to_vec()).expect("a temporary file");
    path.to_str().expect("a path of text").to_owned()
}

const ACCOUNT: [&str; 3] = ["bytes=4194304 of=resident", "bytes=3145728 of=code", "bytes=1048576 of=unexplained"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn one_profile_has_parts_and_shares() {
    let table = text(&memory(&[file("one", &[("f", 5)], &ACCOUNT)]).stdout);
    let lines: Vec<&str> = table.lines().map(str::trim_start).collect();
    assert_eq!(lines, ["4.00MiB 100.00%  resident", "3.00MiB  75.00%  code", "1.00MiB  25.00%  unexplained"]);
}

#[test]
fn several_say_what_grew_in_each_step() {
    let later = [
        "bytes=5242880 of=resident",
        "bytes=4194304 of=native, in use, in the profile",
        "bytes=1048576 of=unexplained",
    ];
    let files = [
        file("a", &[("leaks", 1 << 20), ("stays", 9), ("swings", 1)], &ACCOUNT),
        file("b", &[("leaks", 2 << 20), ("stays", 9), ("swings", 7)], &ACCOUNT),
        file("c", &[("leaks", 4 << 20), ("stays", 9), ("swings", 3), ("new", 2)], &later),
    ];
    let table = text(&memory(&files).stdout);
    assert!(table.contains("4.00MiB     4.00MiB     5.00MiB  resident\n"), "{table}");
    assert!(table.contains("0.00KiB     0.00KiB     4.00MiB  native, in use, in the profile\n"), "{table}");
    let (account, growth) = table.split_once("\ngrew in each of 2 steps").unwrap_or_else(|| panic!("{table}"));
    assert!(account.ends_with("  unexplained\n"), "{account}");
    assert!(growth.contains("+3.00MiB to      4.00MiB  leaks\n"), "{growth}");
    assert_eq!(growth.lines().count(), 2, "{growth}");
    let table = text(&memory(&[files[0].clone(), files[0].clone()]).stdout);
    assert!(table.ends_with("\nno function's memory in use grew in the one step\n"), "{table}");
}

#[test]
fn a_profile_without_an_account_is_refused() {
    let output = memory(&[file("none", &[("f", 5)], &[])]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("onstack record --heap"), "{}", text(&output.stderr));
}
