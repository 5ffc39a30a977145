// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks of Go packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use regex_lite::escape;

use super::{text_of, Benchmark, Cost};
use crate::failure::Failure;

#[derive(Args)]
pub struct Arguments {
    /// As `go test` takes them
    #[arg(value_name = "PACKAGE", default_value = ".")]
    packages: Vec<String>,
}

/// Builds each package's tests below `scratch`, and runs their benchmarks to know their names and how many operations fit into
/// the time: recordings that do the same number compare by CPU time, whatever else the machine does.
pub fn find(arguments: &Arguments, scratch: &Path, seconds: u32) -> Result<Vec<Benchmark>, Failure> {
    let mut benchmarks = Vec::new();
    let list =
        text_of(Path::new("go"), go().args(["list", "-f", "{{.ImportPath}}\t{{.Dir}}"]).args(&arguments.packages))?;
    for (number, line) in list.lines().enumerate() {
        let Some((package, directory)) = line.split_once('\t') else { continue };
        let program = scratch.join(format!("{number}.test"));
        // A program without libc takes no preload.
        let build = ["test", "-c", "-ldflags=-linkmode=external", "-o"];
        text_of(Path::new("go"), go().args(build).arg(&program).arg(package))?;
        if program.exists() {
            add(&mut benchmarks, package, program, directory.into(), seconds)?;
        }
    }
    Ok(benchmarks)
}

fn go() -> Command {
    let mut command = Command::new("go");
    command.env("CGO_ENABLED", "1");
    command
}

fn add(
    benchmarks: &mut Vec<Benchmark>,
    package: &str,
    program: PathBuf,
    directory: PathBuf,
    seconds: u32,
) -> Result<(), Failure> {
    let time = format!("-test.benchtime={seconds}s");
    let text = text_of(
        &program,
        Command::new(&program).args(["-test.run=^$", "-test.bench=.", &time]).current_dir(&directory),
    )?;
    for (name, count) in results(&text) {
        benchmarks.push(Benchmark {
            name: format!("{package}.{name}"),
            file: String::new(),
            program: program.clone(),
            arguments: vec![
                "-test.run=^$".into(),
                format!("-test.bench={}", pattern(name)).into(),
                format!("-test.benchtime={count}x").into(),
            ],
            directory: directory.clone(),
            cost: Cost::Operations(count + 1), // go begins with one
        });
    }
    Ok(())
}

/// "BenchmarkName-2   123   45.6 ns/op   ...": names and numbers of operations. Without "-N", which stands behind all names where
/// GOMAXPROCS is not 1.
fn results(text: &str) -> Vec<(&str, u64)> {
    let of_line = |line| {
        let mut words = str::split_whitespace(line);
        let name = words.next().filter(|name| name.starts_with("Benchmark"))?;
        words.next()?.parse().ok().map(|count| (name, count))
    };
    let found: Vec<(&str, u64)> = text.lines().filter(|line| line.contains("ns/op")).filter_map(of_line).collect();
    let number = found.first().and_then(|(name, _)| name.rsplit_once('-')).map(|(_, number)| format!("-{number}"));
    let is_suffix = |suffix: &String| {
        suffix[1..].parse::<u32>().is_ok() && found.iter().all(|(name, _)| name.ends_with(suffix.as_str()))
    };
    match number.filter(is_suffix) {
        Some(suffix) => found.iter().filter_map(|(name, count)| Some((name.strip_suffix(&suffix)?, *count))).collect(),
        None => found,
    }
}

/// This one alone: go splits at slashes, and takes each part for a regular expression.
fn pattern(name: &str) -> String {
    name.split('/').map(|part| format!("^{}$", escape(part))).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read() {
        let text =
            "goos: linux\nBenchmarkA/x-1-2   \t 100\t 12.5 ns/op\t 0 B/op\nBenchmarkB-2 \t 1\t 2e+06 ns/op\nPASS\n";
        assert_eq!(results(text), [("BenchmarkA/x-1", 100), ("BenchmarkB", 1)]);
        let text = "BenchmarkA-1 1 5 ns/op\nBenchmarkB 1 5 ns/op\n";
        assert_eq!(results(text), [("BenchmarkA-1", 1), ("BenchmarkB", 1)]);
        assert_eq!(pattern("BenchmarkA/x.y"), "^BenchmarkA$/^x\\.y$");
        assert!(results("PASS\n").is_empty());
    }
}
