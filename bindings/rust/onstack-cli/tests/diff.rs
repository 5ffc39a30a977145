// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack diff` as a person runs it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use onstack_pprof_compat::protos::{Function, Line, Location, Message, Profile, Sample, ValueType};

fn diff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack")).arg("diff").args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn file(name: &str, bytes: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("diff-{name}"));
    fs::write(&path, bytes).expect("a temporary file");
    path.to_str().expect("a path of text").to_owned()
}

/// Milliseconds in functions that `main` calls, at a period of ten.
fn profile(value: [&str; 2], times: &[(&str, i64)]) -> Vec<u8> {
    let mut strings = ["", "samples", "count", value[0], value[1], "main"].map(String::from).to_vec();
    strings.extend(times.iter().map(|(name, _)| (*name).to_owned()));
    let ids = 1..=times.len() as u64 + 1;
    let profile = Profile {
        sample_type: vec![ValueType { ty: 1, unit: 2 }, ValueType { ty: 3, unit: 4 }],
        string_table: strings,
        function: ids.clone().map(|id| Function { id, name: id as i64 + 4, ..Function::default() }).collect(),
        location: ids
            .map(|id| Location { id, line: vec![Line { function_id: id, ..Line::default() }], ..Location::default() })
            .collect(),
        sample: (2u64..)
            .zip(times)
            .map(|(id, (_, time))| Sample {
                location_id: vec![id, 1],
                value: vec![time / 10, time * 1_000_000],
                ..Sample::default()
            })
            .collect(),
        period: 10_000_000,
        period_type: Some(ValueType { ty: 3, unit: 4 }),
        ..Profile::default()
    };
    profile.encode_to_vec()
}

const CPU: [&str; 2] = ["cpu", "nanoseconds"];

/// The words of the line that ends with a function's name.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let line = table.lines().find(|line| line.ends_with(&format!("  {name}")));
    line.unwrap_or_else(|| panic!("no {name} in\n{table}")).split_whitespace().collect()
}

/// Written once: tests run side by side.
fn two() -> (String, String) {
    static ONCE: OnceLock<(String, String)> = OnceLock::new();
    let make = || {
        let before = profile(CPU, &[("gone", 20), ("shrunk", 60), ("same", 20)]);
        let after = profile(CPU, &[("new", 80), ("shrunk", 50), ("same", 20), ("one", 10), ("two", 40)]);
        (file("before.pb", &before), file("after.pb", &after))
    };
    ONCE.get_or_init(make).clone()
}

#[test]
fn the_table_shows_the_largest_change_first() {
    let (before, after) = two();
    let output = diff(&[&before, &after]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for part in ["Type: cpu\n", "Before: 100.00ms", "After: 200.00ms", "), +100.00ms\n", "1 unchanged\n"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    assert_eq!(row(table, "new"), ["+80.00ms", "0.00%", "40.00%", "+80.00ms", "0.00%", "40.00%", "new"]);
    assert_eq!(row(table, "gone"), ["-20.00ms", "20.00%", "0.00%", "-20.00ms", "20.00%", "0.00%", "gone"]);
    assert_eq!(row(table, "shrunk")[..3], ["-10.00ms", "60.00%", "25.00%"]);
    assert_eq!(row(table, "main"), ["0.00ms", "0.00%", "0.00%", "+100.00ms", "100.00%", "100.00%", "main"]);
    let names: Vec<_> = table.lines().skip(4).filter_map(|line| line.split_whitespace().nth(6)).collect();
    assert_eq!(names, ["new", "two", "gone", "one", "shrunk", "main"]);
    assert!(!table.contains("  same\n"), "{table}");
}

#[test]
fn what_is_called_counts_where_that_is_asked_for() {
    let (before, after) = two();
    let output = diff(&["--sort", "cum", "--lines", "1", &before, &after]);
    let table = text(&output.stdout);
    assert!(row(table, "main")[3] == "+100.00ms" && table.contains("5 more not shown"), "{table}");
    assert_eq!(diff(&["--sort", "name", &before, &after]).status.code(), Some(2));
}

/// In use, which is shown by default, and allocated: one function's.
fn heap(name: &str, in_use: i64, allocated: i64) -> String {
    let strings = ["", "alloc_space", "bytes", "inuse_space", "keeps"];
    let profile = Profile {
        sample_type: [1, 3].map(|name| ValueType { ty: name, unit: 2 }).to_vec(),
        default_sample_type: 3,
        string_table: strings.map(String::from).to_vec(),
        function: vec![Function { id: 1, name: 4, ..Function::default() }],
        location: vec![Location {
            id: 1,
            line: vec![Line { function_id: 1, ..Line::default() }],
            ..Location::default()
        }],
        sample: vec![Sample { location_id: vec![1], value: vec![allocated, in_use], ..Sample::default() }],
        ..Profile::default()
    };
    file(name, &profile.encode_to_vec())
}

#[test]
fn heap_profiles_differ_in_the_value_that_is_asked_for() {
    let (before, after) = (heap("heap-before.pb", 1 << 20, 5 << 20), heap("heap-after.pb", 2 << 20, 9 << 20));
    for (asked, shown, change) in [
        (&[][..], "inuse_space", "+1.00MiB"),
        (&["--sample-type", "inuse_space"], "inuse_space", "+1.00MiB"),
        (&["--sample-type", "alloc_space"], "alloc_space", "+4.00MiB"),
    ] {
        let svg = file("heap.svg", b"");
        let output = diff(&[asked, &["--flamegraph", &svg, &before, &after]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.starts_with(&format!("Type: {shown}\n")), "{table}");
        assert_eq!(row(table, "keeps")[0], change, "{table}");
        let total = if shown == "alloc_space" { "9,437,184 bytes" } else { "2,097,152 bytes" };
        assert!(fs::read_to_string(&svg).unwrap().contains(total), "no {total} in the picture");
    }
    let cpu = two().0;
    fails(&["--sample-type", "alloc_space", &before, &cpu], &cpu, "alloc_space");
    fails(&["--sample-type", "none", &before, &after], &before, "none");
}

#[test]
fn normalized_profiles_differ_in_shares_only() {
    let (before, after) = two();
    let output = diff(&["--normalize", &before, &after]);
    let table = text(&output.stdout);
    assert!(table.contains("Before: 100.00ms") && table.contains("taken 2.0000 times"), "{table}");
    assert_eq!(row(table, "shrunk")[..3], ["-70.00ms", "60.00%", "25.00%"]);
    assert_eq!(row(table, "same")[..3], ["-20.00ms", "20.00%", "10.00%"]);
    // Of twice the same work nothing has changed.
    let twice = file("twice.pb", &profile(CPU, &[("gone", 40), ("shrunk", 120), ("same", 40)]));
    let output = diff(&["--normalize", &before, &twice]);
    assert!(text(&output.stdout).ends_with("4 unchanged\n"), "{}", text(&output.stdout));
}

#[test]
fn a_differential_flame_graph_in_the_unit_of_the_profile() {
    let (before, after) = two();
    let before = file("<&>.pb", &fs::read(before).unwrap());
    let svg = file("graph.svg", b"");
    let output = diff(&["--flamegraph", &svg, &before, &after]);
    assert!(output.status.success() && text(&output.stdout).contains("Type: cpu"), "{}", text(&output.stderr));
    let picture = fs::read_to_string(&svg).unwrap();
    for part in [
        "<svg",
        "Differential Flame Graph",
        "diff-&lt;&amp;&gt;.pb to ",
        "all (200,000 µs, 100%)",
        "new (80,000 µs, 40.00%; +40.00%)",
        "shrunk (50,000 µs, 25.00%; -5.00%)",
        "same (20,000 µs, 10.00%; 0.00%)",
    ] {
        assert!(picture.contains(part), "{part} is not in the picture");
    }
    let output = diff(&["--normalize", "--flamegraph", &svg, &before, &after]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read_to_string(&svg).unwrap().contains("shrunk (50,000 µs, 25.00%; -35.00%)"));
}

#[test]
fn frames_with_spaces_and_small_counts_are_drawn() {
    let before = file("space.folded", b"main;f (x) 1\nmain;f 1\nmain;f;g 1\nmain;h 7\n");
    let after = file("space-after.folded", b"main;f (x) 1\nmain;f 1\nmain;f;g 1\nmain;h 6\n");
    let svg = file("space.svg", b"");
    let output = diff(&["--normalize", "--flamegraph", &svg, &before, &after]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let picture = fs::read_to_string(&svg).unwrap();
    // 0.9 of one is one, not nothing.
    for part in ["f (x) (1 samples, 11.11%; 0.00%)", "g (1 samples, 11.11%; 0.00%)", "h (6 samples, 66.67%; 0.00%)"] {
        assert!(picture.contains(part), "{part} is not in the picture");
    }
}

#[test]
fn one_of_the_two_may_be_the_standard_input() {
    let (before, after) = two();
    let mut child = Command::new(env!("CARGO_BIN_EXE_onstack"))
        .args(["diff", "-", &after])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().unwrap().write_all(&fs::read(before).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && text(&output.stdout).contains("Before: 100.00ms (-)"),
        "{}",
        text(&output.stdout)
    );
    let output = diff(&["-", "-"]);
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("name a file"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn failures_name_the_file_and_leave_no_output() {
    let (before, _) = two();
    let wall = file("wall.pb", &profile(["wall", "nanoseconds"], &[("f", 10)]));
    let micro = file("micro.pb", &profile(["cpu", "microseconds"], &[("f", 10)]));
    let folded = file("counts.folded", b"main;f 12\n");
    let empty = file("empty.pb", &profile(CPU, &[]));
    let negative = file("negative.pb", &profile(CPU, &[("f", 30), ("g", -10)]));
    let huge = file("huge.folded", format!("main;f {}\n", 1u64 << 54).as_bytes());
    let svg = file("none.svg", b"as before");
    let cases = [
        (vec![&before, &wall], &wall, "its values are wall in nanoseconds"),
        (vec![&before, &micro], &micro, "are cpu in nanoseconds: compare profiles of one type"),
        (vec![&before, &folded], &folded, "samples in count"),
        (vec![&folded, &before], &before, "samples in count"),
    ];
    for (files, named, why) in cases {
        let arguments: Vec<_> =
            ["--flamegraph", &svg].into_iter().chain(files.into_iter().map(String::as_str)).collect();
        fails(&arguments, named, why);
    }
    for (arguments, named, why) in [
        (vec!["--normalize", &empty, &before], &empty, "nothing to normalize by"),
        (vec!["--normalize", &before, &empty], &empty, "nothing to normalize by"),
        (vec!["--flamegraph", &svg, &before, &empty], &empty, "nothing to draw"),
        (vec!["--flamegraph", &svg, &before, &negative], &negative, "below zero"),
        (vec!["--flamegraph", &svg, &folded, &huge], &huge, "too large"),
        (vec![&before, "/nowhere/b.pb"], &"/nowhere/b.pb".to_owned(), "cannot read"),
        (vec!["--flamegraph", "/nowhere/x.svg", &before, &before], &"/nowhere/x.svg".to_owned(), "cannot write"),
    ] {
        fails(&arguments, named, why);
    }
    assert_eq!(fs::read(svg).unwrap(), b"as before");
}

fn fails(arguments: &[&str], named: &str, why: &str) {
    let output = diff(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
    assert!(message.starts_with(&format!("onstack: {named}: ")) && message.contains(why), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

#[test]
fn a_verdict_knows_what_chance_is() {
    let file = |name: &str, parse| file(name, &profile(CPU, &[("parse", parse), ("render", 200_000)]));
    let (before, same, grown) = (file("v1", 10_000), file("v2", 10_300), file("v3", 20_000));
    let run = |arguments: &[&str]| {
        let ran = diff(arguments);
        (ran.status.code(), text(&ran.stdout).to_owned())
    };
    let (code, told) = run(&[&before, &grown, "--fail-above", "3%"]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("Verdict: FAILED: 2 grew by more than 3.00%") && told.contains("! parse\n"), "{told}");
    assert_eq!(row(&told, "! parse")[2], "+4.76%", "{told}");
    // 0.14 % is more than 0.1 %, and less than 1,000 ticks can tell.
    let (code, told) =
        run(&[&before, &same, "--fail-above", "0.1", "--before", &same, "--after", &before, "--markdown"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.starts_with("**Verdict: ok**") && told.contains("Recordings: 2 before, 2 after; so few"), "{told}");
    for bad in [&["--before", &same][..], &["--fail-above", "much"], &["--fail-above", "101%"], &["--markdown"]] {
        assert_eq!(run(&[&[&*before, &*same], bad].concat()).0, Some(2), "{bad:?}");
    }
}
