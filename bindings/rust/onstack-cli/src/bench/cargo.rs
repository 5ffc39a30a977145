// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks of Rust crates.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::Value;

use super::{text_of, Benchmark, Cost};
use crate::failure::Failure;

#[derive(Args)]
pub struct Arguments {
    /// As `cargo bench` takes them: -p CRATE, --bench NAME, --features ...
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Builds the benchmarks, and asks each program for the names of its own.
pub fn find(arguments: &Arguments, seconds: u32) -> Result<Vec<Benchmark>, Failure> {
    let mut command = Command::new("cargo");
    command.args(["bench", "--no-run", "--message-format=json-render-diagnostics"]).args(&arguments.arguments);
    // Inlined functions have their names from there.
    if env::var_os("CARGO_PROFILE_BENCH_DEBUG").is_none() {
        command.env("CARGO_PROFILE_BENCH_DEBUG", "line-tables-only");
    }
    let messages = text_of(Path::new("cargo"), &mut command)?;
    let mut benchmarks = Vec::new();
    for (target, program, directory) in messages.lines().filter_map(program) {
        let list = text_of(&program, Command::new(&program).args(["--bench", "--list"]).current_dir(&directory))?;
        for name in list.lines().filter_map(name) {
            let mut arguments = vec!["--bench".into(), "--exact".into(), name.into()];
            if !is_of_libtest(&list) {
                arguments.extend(criterion(seconds));
            }
            benchmarks.push(Benchmark {
                name: format!("{target}::{name}"),
                file: String::new(),
                program: program.clone(),
                arguments,
                directory: directory.clone(),
                cost: Cost::Told(read),
            });
        }
    }
    Ok(benchmarks)
}

/// What a user keeps of other runs stays as it is.
fn criterion(seconds: u32) -> Vec<OsString> {
    let time = seconds.to_string();
    [
        "--quiet",
        "--discard-baseline",
        "--noplot",
        "--color",
        "never",
        "--nresamples",
        "1001",
        "--warm-up-time",
        "0.3",
        "--measurement-time",
        &time,
    ]
    .map(OsString::from)
    .to_vec()
}

/// The target behind its package, the program and its package's directory, of a message that tells of benchmarks. A crate's own
/// programs are built as well, and are not to be run.
fn program(message: &str) -> Option<(String, PathBuf, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    message["profile"]["test"].as_bool().filter(|is_benchmark| *is_benchmark)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (target, program) = (text(&message["target"]["name"])?, text(&message["executable"])?);
    let manifest = PathBuf::from(text(&message["manifest_path"])?);
    let package = package(message["package_id"].as_str()?);
    Some((format!("{package}/{target}"), program.into(), manifest.parent()?.into()))
}

/// The name in "path+file:///there/name#0.1.0", "...#name@0.1.0", or, of older cargos, "name 0.1.0 (path+file:///there)".
fn package(id: &str) -> &str {
    if let Some((name, _)) = id.split_once(' ') {
        return name;
    }
    let (place, name) = id.rsplit_once('#').unwrap_or((id, ""));
    match name.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

/// Its lists end with their length: "0 tests, 2 benchmarks". Criterion's do not, and it has no help where its features are few.
fn is_of_libtest(list: &str) -> bool {
    list.lines()
        .any(|line| line.contains(" tests, ") && (line.ends_with(" benchmarks") || line.ends_with(" benchmark")))
}

/// Both harnesses list "NAME: benchmark".
fn name(line: &str) -> Option<&str> {
    line.strip_suffix(": benchmark")
}

/// Criterion's "time:   [low unit middle unit high unit]", or "bench:   1,234.5 ns/iter (+/- 6)".
fn read(text: &str) -> Option<f64> {
    let of_criterion = text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_once("time:")?.1.trim().trim_matches(['[', ']']).split_whitespace().collect();
        let (middle, unit) = (words.get(2)?.parse::<f64>().ok()?, words.get(3)?);
        let units = [("ps", 1e-3), ("ns", 1.0), ("µs", 1e3), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        units.iter().find(|(name, _)| name == unit).map(|(_, ns)| middle * ns)
    });
    of_criterion.or_else(|| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let unit = words.iter().position(|&word| word == "ns/iter")?;
        words.get(unit.checked_sub(1)?)?.replace(',', "").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_times_are_read() {
        let criterion = "parse/small           time:   [1.2000 µs 1.2345 µs 1.3000 µs]\n  change: ...\n";
        assert!((read(criterion).unwrap() - 1234.5).abs() < 1e-9);
        assert_eq!(read("test parse ... bench:       1,234.50 ns/iter (+/- 3.00)\n"), Some(1234.5));
        assert_eq!(read("running 0 tests\n"), None);
        let ids =
            ["path+file:///there/one#0.1.0", "path+file:///there/x#two@0.1.0", "three 0.1.0 (path+file:///there)"];
        assert_eq!(ids.map(package), ["one", "two", "three"]);
        let message = |test: bool| {
            format!(
                r#"{{"package_id":"path+file:///there/one#0.1.0","manifest_path":"/there/one/Cargo.toml","target":{{"name":"speed"}},
                "profile":{{"test":{test}}},"executable":"/there/speed"}}"#
            )
        };
        assert_eq!(program(&message(true)), Some(("one/speed".into(), "/there/speed".into(), "/there/one".into())));
        assert_eq!(program(&message(false)), None);
        assert_eq!(name("parse/small: benchmark"), Some("parse/small"));
        assert_eq!(name("parse::works: test"), None);
        assert!(is_of_libtest("parse: benchmark\n\n0 tests, 1 benchmark\n") && !is_of_libtest("parse: benchmark\n\n"));
    }
}
