// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program as a person runs it.

mod pprof;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::ptr;

use flate2::write::GzEncoder;
use onstack_pprof_compat::protos::{Function, Line, Location, Mapping, Message, Profile, Sample, ValueType};

fn onstack(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack")).args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn file(name: &str, bytes: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).expect("a temporary file");
    path.to_str().expect("a path of text").to_owned()
}

/// 60 ms in `hot` and 20 ms in `cold`, both called by `main`, and 20 ms without a name.
fn profile() -> Vec<u8> {
    let strings = ["", "samples", "count", "cpu", "nanoseconds", "hot", "cold", "main", "libx.so+0x12"];
    let sample = |leaf, milliseconds: i64| Sample {
        location_id: vec![leaf, 3],
        value: vec![milliseconds / 10, milliseconds * 1_000_000],
        ..Sample::default()
    };
    let profile = Profile {
        sample_type: vec![ValueType { ty: 1, unit: 2 }, ValueType { ty: 3, unit: 4 }],
        string_table: strings.map(String::from).to_vec(),
        function: (1..=4).map(|id| Function { id, name: id as i64 + 4, ..Function::default() }).collect(),
        location: (1..=4)
            .map(|id| Location { id, line: vec![Line { function_id: id, ..Line::default() }], ..Location::default() })
            .collect(),
        sample: vec![sample(1, 60), sample(2, 20), sample(4, 20)],
        ..Profile::default()
    };
    profile.encode_to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Names come from files that anybody made, and a terminal obeys what is in them.
#[test]
fn what_a_terminal_would_obey_is_shown_and_not_done() {
    let mut profile = Profile::decode(&profile()[..]).unwrap();
    let evil = "hot\u{1b}]0;title\u{7}\u{1b}[2J\n 100.00% innocent\r\u{9b}31m\u{202e}";
    for text in &mut profile.string_table[3..] {
        *text = format!("{text}{evil}");
    }
    profile.comment = vec![profile.string_table.len() as i64, profile.string_table.len() as i64 + 1];
    profile.string_table.push(format!("onstack.stats key{evil}=value{evil}"));
    profile.string_table.push(format!("onstack.module lost=1 no_rule=1 path=/{evil}"));
    let path = file("evil.pb", &profile.encode_to_vec());
    let other = file("evil2.pb", &profile.encode_to_vec());
    for arguments in [&["report", &path][..], &["report", "--tree", &path], &["stat", &path], &["diff", &path, &other]]
    {
        let output = onstack(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let shown = text(&output.stdout);
        let obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(
            !shown.contains(obeyed) && !shown.lines().any(|line| line.starts_with(" 100.00% innocent")),
            "{shown:?}"
        );
        assert!(arguments[0] == "diff" || shown.contains("hot\\u{1b}]0;title"), "{arguments:?}: {shown}");
    }
}

#[test]
fn errors_do_nothing_to_a_terminal_either() {
    let mut profile = Profile::decode(&profile()[..]).unwrap();
    profile.string_table[1] += "\u{1b}]0;title\u{7}\n";
    let path = file("evil-type.pb", &profile.encode_to_vec());
    let refused = onstack(&["report", "--sample-type", "none", &path]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("samples\\u{1b}]0;title\\u{7}\\u{a}, cpu"), "{said:?}");
    assert!(!said.trim_end().contains(char::is_control), "{said:?}");
}

#[test]
fn a_picture_is_of_the_chosen_value() {
    let mut profile = Profile::decode(&profile()[..]).unwrap();
    for sample in &mut profile.sample {
        sample.value[0] = 7;
    }
    let path = file("chosen.pb", &profile.encode_to_vec());
    let samples = onstack(&["convert", "--format", "folded", "--sample-type", "samples", &path]);
    assert_eq!(text(&samples.stdout), "main;cold 7\nmain;hot 7\nmain;libx.so+0x12 7\n");
    let cpu = onstack(&["convert", "--format", "folded", "--sample-type", "cpu", &path]);
    assert_eq!(text(&cpu.stdout), "main;cold 20000000\nmain;hot 60000000\nmain;libx.so+0x12 20000000\n");
    let drawn = onstack(&["flamegraph", "--sample-type", "cpu", &path]);
    assert!(text(&drawn.stdout).contains("60,000,000 samples"), "{}", text(&drawn.stdout));
}

#[test]
fn top_lists_functions_and_the_share_with_names() {
    for (name, bytes) in [("top.pb", profile()), ("top.pb.gz", gzip(&profile()))] {
        let output = onstack(&["report", &file(name, &bytes)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.contains("Total: 100.00ms; 80.00% in named functions"), "{table}");
        let hot: Vec<_> = table.lines().find(|line| line.ends_with(" hot")).unwrap().split_whitespace().collect();
        assert_eq!(hot, ["60.00ms", "60.00%", "60.00%", "60.00ms", "60.00%", "hot"]);
        let main: Vec<_> = table.lines().find(|line| line.ends_with(" main")).unwrap().split_whitespace().collect();
        assert_eq!(main[3..], ["100.00ms", "100.00%", "main"]);
    }
}

#[test]
fn top_shows_as_many_as_asked() {
    let output = onstack(&["report", "-n", "1", &file("count.pb", &profile())]);
    let table = text(&output.stdout);
    assert!(table.contains(" hot") && !table.contains(" cold") && table.contains("3 more not shown"), "{table}");
}

#[test]
fn a_file_without_names_is_told_once() {
    let mut profile = Profile::decode(&profile()[..]).unwrap();
    profile.mapping = vec![Mapping { id: 1, filename: 8, ..Mapping::default() }];
    profile.string_table[8] = "/lib/libx.so".into();
    for location in &mut profile.location[1..] {
        location.mapping_id = 1;
    }
    let once = |profile: &Profile| {
        let path = file("stripped.pb", &profile.encode_to_vec());
        let shown = text(&onstack(&["report", &path]).stdout).to_owned();
        let told = "No names in /lib/libx.so (20.00%), which seems to be stripped";
        assert_eq!(shown.matches(told).count(), 1, "{shown}");
        let fitted = on_a_terminal(&["report", &path]);
        assert!(fitted.contains("find-dbgsym-packages /lib/libx.so names it"), "{fitted}");
    };
    // As the core writes it, and as others do.
    profile.function[3].name = profile.string_table.len() as i64;
    profile.string_table.push("libx.so+0x12".into());
    once(&profile);
    profile.location[3].line.clear();
    once(&profile);
    profile.string_table[8] = "/memfd:code (deleted)".into();
    let output = onstack(&["report", &file("generated.pb", &profile.encode_to_vec())]);
    assert!(!text(&output.stdout).contains("No names in"), "{}", text(&output.stdout));
}

/// What the program writes to a terminal of 80 columns.
fn on_a_terminal(arguments: &[&str]) -> String {
    let (mut ours, mut its) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both descriptors are written, and belong to nobody else.
    let (ours, its) = unsafe {
        assert_eq!(libc::openpty(&mut ours, &mut its, ptr::null_mut(), ptr::null(), &size), 0);
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(its))
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
    let mut child = command.args(arguments).stdout(its).spawn().expect("the program runs");
    drop(command); // it has the terminal open
    let mut shown = Vec::new();
    // Once nobody has the terminal open the kernel says EIO.
    let _ = File::from(ours).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).expect("text")
}

#[test]
fn long_names_are_cut_for_a_terminal_alone() {
    let mut profile = Profile::decode(&profile()[..]).unwrap();
    let name = format!("begin_{}_end", "x".repeat(200));
    profile.string_table[5] = name.clone();
    let path = file("wide.pb", &profile.encode_to_vec());
    for command in [&["report"][..], &["report", "--tree"]] {
        let shown = on_a_terminal(&[command, &[&path]].concat());
        assert!(shown.contains("begin_x") && shown.contains("x_end"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(on_a_terminal(&[command, &["--wide", &path]].concat()).contains(&name));
        assert!(text(&onstack(&[command, &[&path]].concat()).stdout).contains(&name));
    }
}

#[test]
fn a_flame_graph_of_both_kinds_of_input() {
    for (name, bytes) in [("graph.pb.gz", gzip(&profile())), ("graph.folded", b"main;hot 6\nmain;cold 2\n".to_vec())] {
        let svg = file(&format!("{name}.svg"), b"");
        let output = onstack(&["flamegraph", "--title", "A title", "-o", &svg, &file(name, &bytes)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let picture = fs::read_to_string(svg).unwrap();
        for part in ["<svg", "A title", "hot (6 samples", "cold (2 samples", "</svg>"] {
            assert!(picture.contains(part), "{part} is not in the picture of {name}");
        }
    }
}

/// Red, green and blue of a function's box.
fn color_of(picture: &str, title: &str) -> [u32; 3] {
    let from = &picture[picture.find(&format!("<title>{title}")).expect(title)..];
    let numbers = from.split("fill=\"rgb(").nth(1).and_then(|rest| rest.split(')').next()).expect("a colour");
    let numbers: Vec<u32> = numbers.split(',').map(|number| number.trim().parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn colours_tell_the_language_and_the_subtitle_the_total() {
    let folded = file("languages.folded", b"main.run;sum.part.0 6\nmain.run;std::sort 2\n");
    let draw = |more: &[&str]| text(&onstack(&[&["flamegraph", &folded], more].concat()).stdout).to_owned();
    let picture = draw(&[]);
    assert!(picture.contains("samples 8, C 75%, C++ 25%"), "{picture}");
    let ([red, green, blue], [c_red, _, c_blue]) = (color_of(&picture, "main.run "), color_of(&picture, "sum.part.0 "));
    assert!(red < 110 && green > 150 && blue > 150, "Go is cyan, not {red} {green} {blue}");
    assert!(c_red < 150 && c_blue > 200, "C is blue, not {c_red} .. {c_blue}");
    assert_eq!(color_of(&picture, "main.run "), color_of(&draw(&[]), "main.run "), "the same in each picture");
    let [red, _, blue] = color_of(&draw(&["--colors", "hot"]), "main.run ");
    assert!(red > 200 && blue < 80, "hot is warm, not {red} .. {blue}");
}

#[test]
fn failures_name_the_file_and_leave_no_output() {
    let cases = [
        ("flamegraph", file("empty", b""), "is empty"),
        ("flamegraph", file("words.txt", b"main;f 12\nthese are words\n"), "line 2"),
        ("flamegraph", file("blank", b"\n\n"), "no stacks"),
        ("flamegraph", file("cut.pb.gz", &gzip(&profile())[..40]), "gzip data is damaged"),
        ("flamegraph", file("binary", b"\x7fELF\x02\x01\x01\x00\xff"), "not a pprof profile"),
        ("stat", file("top.folded", b"main;f twelve\n"), "line 1"),
        ("report", "/nowhere/profile.pb.gz".into(), "cannot read"),
    ];
    for (command, path, why) in cases {
        let output = onstack(&[command, &path]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{path}: {message}");
        assert!(message.contains(&path) && message.contains(why), "{path}: {message}");
        assert!(output.stdout.is_empty(), "{path}");
    }
}

/// A profile of less than a kilobyte whose one stack has a thousand places, each with 200,000 inlined functions.
#[test]
fn a_small_profile_of_countless_frames_is_refused() {
    let mut bomb = Profile::decode(&profile()[..]).unwrap();
    bomb.sample.truncate(1);
    bomb.sample[0].location_id = vec![1; 1000];
    bomb.location[0].line = vec![Line { function_id: 1, ..Line::default() }; 200_000];
    let path = file("bomb.pb.gz", &gzip(&bomb.encode_to_vec()));
    assert!(fs::metadata(&path).unwrap().len() < 5000);
    let commands: [&[&str]; 6] =
        [&["report"], &["report", "--tree"], &["stat"], &["view", "-o", "-"], &["flamegraph"], &["diff", &path]];
    for command in commands {
        let output = onstack(&[command, &[&path]].concat());
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("a stack of 200000000 frames; 65536 are the most"), "{command:?}");
    }
}

#[test]
fn a_profile_without_samples_is_no_picture() {
    let mut empty = Profile::decode(&profile()[..]).unwrap();
    empty.sample.clear();
    let svg = file("none.svg", b"as before");
    let output = onstack(&["flamegraph", "-o", &svg, &file("none.pb", &empty.encode_to_vec())]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("no samples"), "{}", text(&output.stderr));
    assert_eq!(fs::read(svg).unwrap(), b"as before");
}

#[test]
fn folded_stacks_make_a_table_too() {
    let output = onstack(&["report", &file("table.folded", b"main;hot 6\nmain;cold 2\n")]);
    let table = text(&output.stdout);
    assert!(table.contains("Total: 8") && table.contains(" hot\n"), "{table}");
}

#[test]
fn report_shows_the_tree_of_calls() {
    let path = file("tree.pb", &profile());
    let output = onstack(&["report", "--tree", "--depth", "2", "--least", "30", &path]);
    let tree = text(&output.stdout);
    assert!(tree.contains("100.00%     0.00ms  0.00%  main\n"), "{tree}");
    assert!(tree.contains("60.00%    60.00ms 60.00%    hot\n") && !tree.contains("cold"), "{tree}");
    let both = onstack(&["report", "--tree", "--table", &path]);
    assert!(text(&both.stdout).contains("flat%    sum%"), "{}", text(&both.stdout));
    assert_eq!(onstack(&["report", "--tree", "--least", "101", &path]).status.code(), Some(2));
}

#[test]
fn stat_says_what_has_names_and_what_was_cut() {
    let output = onstack(&["stat", &file("stat.pb", &profile())]);
    let lines = text(&output.stdout);
    for part in ["100.00ms of cpu in 3 stacks", "80.00%  leaf has a name", "100.00%  stack reaches its root"] {
        assert!(lines.contains(part), "{part} is not in\n{lines}");
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_profile_becomes_one_of_another_form() {
    let path = file("convert.pb.gz", &gzip(&profile()));
    let folded = onstack(&["convert", "--format", "folded", &path]);
    assert_eq!(text(&folded.stdout), "main;cold 2\nmain;hot 6\nmain;libx.so+0x12 2\n", "{}", text(&folded.stderr));
    let pprof = onstack(&["convert", "--format", "pprof", &file("convert.folded", &folded.stdout)]);
    assert!(pprof.stdout.starts_with(&[0x1f, 0x8b]), "{}", text(&pprof.stderr));
    assert_eq!(pprof::read(&pprof.stdout).top().total, 10);
    let again = onstack(&["convert", "--format", "pprof", "--sample-type", "samples", &path]);
    assert_eq!(pprof::read(&again.stdout).top().total, 10);

    let mut otlp = Command::new(env!("CARGO_BIN_EXE_onstack"));
    otlp.args(["convert", "--format", "otlp", "--resource", "service.name=shop", &path]);
    otlp.env("OTEL_SERVICE_NAME", "other").env("OTEL_RESOURCE_ATTRIBUTES", "host.name=a%2Cb,service.name=third");
    let otlp = otlp.output().unwrap();
    assert!(otlp.status.success(), "{}", text(&otlp.stderr));
    for part in ["service.name\x12\x06\n\x04shop", "host.name\x12\x05\n\x03a,b", "hot", "nanoseconds"] {
        assert!(contains(&otlp.stdout, part), "{part}");
    }
    assert!(!contains(&otlp.stdout, "other") && !contains(&otlp.stdout, "third"));
}

#[test]
fn a_resource_that_says_nothing_is_a_wrong_argument() {
    let path = file("resource.pb.gz", &gzip(&profile()));
    let wrong = onstack(&["convert", "--format", "folded", "--resource", "a=b", &path]);
    assert_eq!((wrong.status.code(), text(&wrong.stderr).contains("--format otlp")), (Some(2), true));
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_onstack"));
    wrong.args(["convert", "--format", "otlp", &path]).env("OTEL_RESOURCE_ATTRIBUTES", "a");
    let wrong = wrong.output().unwrap();
    assert!(wrong.stdout.is_empty() && text(&wrong.stderr).contains("OTEL_RESOURCE_ATTRIBUTES"), "{wrong:?}");
    let wrong = onstack(&["convert", "--format", "otlp", "--resource", "=b", &path]);
    assert_eq!(wrong.status.code(), Some(2));
}
