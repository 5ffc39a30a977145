// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack bench` with real Go benchmarks, and what `diff` says of what it wrote.

mod inherited;
mod pprof;
mod preloaded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use preloaded::{library, place};

const CODE: &str = r#"package work

import (
	"os"
	"strconv"
)

var more, _ = strconv.Atoi(os.Getenv("MORE"))

//go:noinline
func parse(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i * i % 7
	}
	return sum
}

//go:noinline
func render(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum ^= i * 31 % 11
	}
	return sum
}

func Page() int { return parse(3000+more) + render(7000) }
"#;

const TESTS: &str = r#"package work

import "testing"

var sink int

func BenchmarkPage(b *testing.B) {
	for i := 0; i < b.N; i++ {
		sink += Page()
	}
}

func BenchmarkParts(b *testing.B) {
	b.Run("render.1", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			sink += render(1000)
		}
	})
	b.Run("render", func(b *testing.B) { b.Skip() })
}

func TestOfNoBenchmark(t *testing.T) { t.Fatal("is not to be run") }
"#;

fn onstack(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// As some supervisors start programs.
#[test]
fn tools_are_awaited_where_the_ends_of_children_are_ignored() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
    command.args(["bench", "go", "./nothing"]).current_dir(directory("bench-ignored"));
    let output = inherited::under(&mut command, libc::SIGCHLD, libc::SIG_IGN).output().unwrap();
    assert!(text(&output.stderr).contains("go: failed: exit status"), "{}", text(&output.stderr));
}

/// An empty directory.
fn directory(name: &str) -> PathBuf {
    let path = place(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
#[ignore = "half a minute: `make test-all`"]
fn benchmarks_of_go_are_recorded_and_compared() {
    let Some(library) = library() else { return };
    let module = directory("bench-go");
    for (name, content) in
        [("go.mod", "module example.com/work\ngo 1.22\n"), ("work.go", CODE), ("work_test.go", TESTS)]
    {
        fs::write(module.join(name), content).unwrap();
    }
    let bench = |output: &str, only: &str, more: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
        command.args(["bench", "--output", output, "--runs", "5", "--only", only, "--preload"]).arg(&library);
        let output = command.args(["go", "./..."]).current_dir(&module).env("MORE", more).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    bench("before", "", "0");
    bench("after", "Page", "12000"); // parse is five times as dear
    let names = fs::read_dir(module.join("before")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    let wanted = ["example.com_work.BenchmarkPage", "example.com_work.BenchmarkParts_render.1"];
    let wanted = wanted.iter().flat_map(|name| (1..=5).map(move |run| format!("{name}.{run}.pb.gz")));
    assert_eq!(names, wanted.collect::<Vec<_>>(), "no scratch files, and no other benchmark");

    let profile = pprof::read(&fs::read(module.join("after").join(&names[0])).unwrap());
    let top = profile.top();
    let parse = top.entries.iter().find(|entry| entry.name == "example.com/work.parse").expect("the function");
    assert!(parse.cum * 2 > top.total, "{} of {}", parse.cum, top.total);

    let same = onstack(&["diff", "--fail-above", "3%", "before", "before"], &module);
    assert!(same.status.success() && text(&same.stdout).starts_with("Verdict: ok: 0 of 2 "), "{}", text(&same.stdout));
    let grown = onstack(&["diff", "--fail-above", "3%", "--markdown", "before", "after"], &module);
    let said = text(&grown.stdout);
    assert_eq!(grown.status.code(), Some(3), "{said}");
    for part in [
        "**Verdict: FAILED**: 1 of 1 benchmarks",
        "| ❌ | `example.com/work.BenchmarkPage` |",
        "Only before: example.com/work.BenchmarkParts/render.1",
        "| ❌ | `example.com/work.parse` |",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

#[test]
fn what_cannot_be_compared_or_recorded_is_named() {
    let place = directory("bench-refused");
    fs::create_dir_all(place.join("empty")).unwrap();
    fs::create_dir_all(place.join("folded")).unwrap();
    fs::write(place.join("folded/a"), "main 1\n").unwrap();
    let refused = |arguments: &[&str], code: i32, what: &str| {
        let output = onstack(arguments, &place);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(code) && said.contains(what),
            "{arguments:?}: {:?}: {said}",
            output.status
        );
    };
    refused(&["diff", "empty", "empty"], 2, "--fail-above");
    refused(&["diff", "--fail-above", "3%", "--normalize", "empty", "empty"], 2, "alone");
    refused(&["diff", "--fail-above", "3%", "empty", "empty"], 1, "holds no profiles");
    refused(&["diff", "--fail-above", "3%", "folded", "folded"], 1, "folded/a: is no profile of a benchmark");
    refused(&["diff", "--fail-above", "3%", "folded", "folded/a"], 1, "is no directory");
    refused(&["bench", "-o", "folded", "go"], 1, "is not empty");
    refused(&["bench", "-o", "new", "go", "./nothing"], 1, "go: failed");
    refused(&["bench", "-o", "new"], 2, "Usage");
    refused(&["bench", "--only", "(", "go"], 2, "--only");
}
