// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views by label, and parts of a profile by label and function, as a person asks for them.

mod pprof;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Two threads' stacks: folded stacks become samples whose first frame is no label, so the profile is written by hand.
fn profile(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let strings = ["", "cpu", "nanoseconds", "request", "checkout", "search", "main", "pay", "find", "shard"];
    let mut bytes = field(1, &[number(1, 1), number(2, 2)].concat());
    let stacks = [
        (vec![2, 1], 30, vec![label(4)]),
        (vec![3, 1], 50, vec![label(5), field(3, &[number(1, 9), number(3, 7)].concat())]),
        (vec![1], 20, vec![]),
    ];
    for (locations, value, labels) in stacks {
        let locations: Vec<u8> = locations.iter().flat_map(|&id| number(1, id)).collect();
        bytes.extend(field(2, &[locations, number(2, value * 1_000_000), labels.concat()].concat()));
    }
    for id in 1..=3 {
        bytes.extend(field(4, &[number(1, id), field(4, &number(1, id))].concat()));
        bytes.extend(field(5, &[number(1, id), number(2, id + 5)].concat()));
    }
    strings.iter().for_each(|text| bytes.extend(field(6, text.as_bytes())));
    fs::write(&path, bytes).unwrap();
    path
}

fn label(text: u64) -> Vec<u8> {
    field(3, &[number(1, 3), number(2, text)].concat())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn field(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn onstack(arguments: &[&str], name: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack")).args(arguments).arg(profile(name)).output().unwrap()
}

fn text(arguments: &[&str], name: &str) -> String {
    let output = onstack(arguments, name);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_table_by_the_values_of_a_label() {
    let table = text(&["report", "--by", "request"], "by.pb");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0..2], ["Type: cpu", "Total: 100.00ms"]);
    assert_eq!(lines[3..], ["   50.00ms 50.00%  search", "   30.00ms 30.00%  checkout", "   20.00ms 20.00%  [none]"]);
    assert!(text(&["report", "--by", "shard"], "by.pb").contains("50.00ms 50.00%  7\n"));
    assert!(text(&["report", "--by", "request", "-n", "1"], "by.pb").ends_with("search\n2 more not shown\n"));
}

#[test]
fn filters_by_label_and_function() {
    let total = |arguments: &[&str]| {
        let table = text(&[&["report"], arguments].concat(), "filters.pb");
        table.lines().nth(1).unwrap().split_once(';').unwrap().0.to_owned()
    };
    for (arguments, whole) in [
        (&["--filter", "request=checkout"][..], "30.00ms"),
        (&["--filter", "request="], "20.00ms"),
        (&["--filter", "request=checkout", "--filter", "request=search"], "80.00ms"),
        (&["--filter", "request=search", "--filter", "shard=7"], "50.00ms"),
        (&["--focus", "^(pay|find)$"], "80.00ms"),
        (&["--ignore", "pay"], "70.00ms"),
        (&["--focus", "main", "--ignore", "pay", "--filter", "request=search"], "50.00ms"),
    ] {
        assert_eq!(total(arguments), format!("Total: {whole}"), "{arguments:?}");
    }
    let picture = text(&["flamegraph", "--filter", "request=search"], "filters.pb");
    assert!(picture.contains("find") && !picture.contains("pay"));
    let tree = text(&["report", "--tree", "--focus", "pay"], "filters.pb");
    assert!(tree.contains("pay") && !tree.contains("find"), "{tree}");
}

#[test]
fn a_wrong_word_is_no_empty_table() {
    for (arguments, code, why) in [
        (
            &["report", "--by", "requests"][..],
            1,
            "no sample has a label requests; the labels there are: request, shard",
        ),
        (&["report", "--waits"], 1, "no sample has a label state"),
        (&["report", "--filter", "tenant=a"], 1, "no sample has a label tenant"),
        (&["report", "--filter", "request=nobody"], 1, "no sample is left by these filters"),
        (&["report", "--focus", "nothing"], 1, "no sample is left"),
        (&["report", "--focus", "("], 2, "--focus"),
        (&["report", "--filter", "request"], 2, "KEY=VALUE is expected"),
    ] {
        let output = onstack(arguments, "wrong.pb");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn labels_are_frames_where_they_are_asked_for() {
    let folded = |arguments: &[&str]| text(&[&["convert", "--format", "folded"], arguments].concat(), "tags.pb");
    assert!(
        folded(&["--tagroot", "request"]).contains("request=checkout;main;pay "),
        "{}",
        folded(&["--tagroot", "request"])
    );
    assert!(
        folded(&["--tagleaf", "request"]).contains("main;find;request=search "),
        "{}",
        folded(&["--tagleaf", "request"])
    );
    for tag in ["--tagroot", "--tagleaf"] {
        let output = onstack(&["convert", "--format", "pprof", tag, "request"], "tags.pb");
        let tagged = pprof::read(&output.stdout);
        assert!(tagged.top().get("request=checkout").is_some(), "{}", tagged.top());
    }
    assert!(text(&["report", "--tree", "--tagroot", "request"], "tags_tree.pb").contains("request=search"));
    let output = onstack(&["flamegraph", "--tagroot", "holder"], "tags_wrong.pb");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("no sample has a label holder"), "{errors}");
}
