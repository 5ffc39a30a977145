// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench`: runs benchmarks, and keeps profiles of each, with what an operation took; `diff` compares two such directories.

mod cargo;
pub mod compare;
mod go;
pub mod measured;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use clap::{Args, Subcommand};
use onstack::plain::Plain;
use regex_lite::Regex;

use crate::failure::Failure;
use crate::{input, output, signals};
use measured::Measured;

#[derive(Args)]
pub struct Arguments {
    /// Where the profiles go: a directory that is not there yet, or is empty
    #[arg(short, long, value_name = "DIRECTORY", default_value = "benchmarks")]
    output: PathBuf,
    /// Recordings of each benchmark; all of them are run once, and again, so that what the machine does meanwhile meets all. Ten
    /// of three seconds a side show 5 % mostly, on a machine that others use too
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Seconds of each recording, as go's -benchtime and criterion's measurement time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Ticks a second of CPU time
    #[arg(short = 'F', long, value_name = "HERTZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: u32,
    /// Only benchmarks whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
    /// The library that is preloaded, where it is not the installed one
    #[arg(long, value_name = "FILE", env = "ONSTACK_PRELOAD")]
    preload: Option<PathBuf>,
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Benchmarks of Go packages
    Go(go::Arguments),
    /// Benchmarks of Rust crates, by criterion or the standard library's harness
    Cargo(cargo::Arguments),
}

/// One that can be run by itself.
struct Benchmark {
    /// Of no other in the same directory of profiles.
    name: String,
    /// What its profiles' names begin with.
    file: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    directory: PathBuf,
    cost: Cost,
}

/// How the CPU time of an operation is known.
enum Cost {
    /// The program does so many operations.
    Operations(u64),
    /// It does as many as it likes, and says how many nanoseconds one took.
    Told(fn(&str) -> Option<f64>),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    signals::await_children();
    prepare(&arguments.output)?;
    let scratch = output::scratch(&arguments.output.join("programs"))?;
    let mut benchmarks = match &arguments.tool {
        Tool::Go(tool) => go::find(tool, &scratch.0, arguments.seconds)?,
        Tool::Cargo(tool) => cargo::find(tool, arguments.seconds)?,
    };
    benchmarks.retain(|benchmark| arguments.only.as_ref().is_none_or(|only| only.is_match(&benchmark.name)));
    if benchmarks.is_empty() {
        return Err(Failure::of_arguments("there is no such benchmark"));
    }
    name_files(&mut benchmarks);
    for run in 1..=arguments.runs {
        for benchmark in &benchmarks {
            let measured = record(benchmark, arguments, run)?;
            eprintln!("onstack: run {run} of {}: {}: {}", arguments.runs, Plain(&measured.name), measured.text());
        }
    }
    let (profiles, directory) = (benchmarks.len() * arguments.runs as usize, output::name(&arguments.output));
    eprintln!("onstack: wrote {profiles} profiles of {} benchmarks to {directory}", benchmarks.len());
    Ok(())
}

/// Profiles of two times in one directory would be taken for one side of a comparison.
fn prepare(directory: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::new(directory, format!("cannot be written to: {error}"));
    fs::create_dir_all(directory).map_err(cannot)?;
    match fs::read_dir(directory).map_err(cannot)?.next() {
        None => Ok(()),
        Some(_) => Err(Failure::new(directory, "is not empty: name another directory, or remove this one")),
    }
}

fn record(benchmark: &Benchmark, arguments: &Arguments, run: u32) -> Result<Measured, Failure> {
    let path = arguments.output.join(format!("{}.{run}.pb.gz", benchmark.file));
    let own = env::current_exe().map_err(|error| Failure::new(&benchmark.program, error))?;
    let mut command = Command::new(own);
    command.args(["record", "--quiet", "--frequency", &arguments.frequency.to_string(), "--output"]);
    command.arg(std::path::absolute(&path).map_err(|error| Failure::new(&path, error))?);
    if let Some(library) = &arguments.preload {
        let library = std::path::absolute(library).map_err(|error| Failure::new(library, error))?;
        command.arg("--preload").arg(library).env_remove("ONSTACK_PRELOAD");
    }
    command.arg("--").arg(&benchmark.program).args(&benchmark.arguments).current_dir(&benchmark.directory);
    let text = checked(&benchmark.program, &mut command)?;
    let mut profile = input::read(&path)?;
    let cost = match benchmark.cost {
        Cost::Operations(count) => measured::cpu_ns(&profile).map(|ns| ns / count as f64),
        Cost::Told(read) => read(&text).map(|ns| ns * measured::processors(&profile)),
    };
    let silent = || Failure::new(&benchmark.program, format!("{} says no time of an operation", benchmark.name));
    let measured = Measured { name: benchmark.name.clone(), cpu_ns: cost.ok_or_else(silent)? };
    profile.add_comment(&measured.comment());
    let mut bytes = Vec::new();
    profile.write_pprof(&mut bytes).map_err(|error| Failure::new(&path, error))?;
    output::write(Some(&path), &bytes)?;
    Ok(measured)
}

/// What a tool wrote that ended well. Its errors are a person's to see at once.
fn text_of(program: &Path, command: &mut Command) -> Result<String, Failure> {
    checked(program, command.stderr(Stdio::inherit()))
}

/// What a program wrote that ended well; all that it said where it did not.
fn checked(program: &Path, command: &mut Command) -> Result<String, Failure> {
    let cannot = |error| Failure::of_program(program, 127, format!("cannot be run: {error}"));
    let Output { status, stdout, stderr } = command.output().map_err(cannot)?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        return Ok(text);
    }
    eprint!("{text}{}", String::from_utf8_lossy(&stderr));
    Err(Failure::new(program, format!("failed: {status}")))
}

/// Letters, digits and what no shell or file system minds; a number where two are alike then.
fn name_files(benchmarks: &mut [Benchmark]) {
    let mut known = HashMap::<String, u32>::new();
    for benchmark in benchmarks {
        let of = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        benchmark.file = benchmark.name.chars().map(of).collect();
        let met = known.entry(benchmark.file.clone()).or_default();
        *met += 1;
        if *met > 1 {
            benchmark.file += &format!("-{met}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_names_of_their_own() {
        let one = |name: &str| Benchmark {
            name: name.into(),
            file: String::new(),
            program: PathBuf::new(),
            arguments: Vec::new(),
            directory: PathBuf::new(),
            cost: Cost::Operations(1),
        };
        let mut benchmarks = ["a/b", "a b", "../c"].map(one);
        name_files(&mut benchmarks);
        assert_eq!(benchmarks.map(|benchmark| benchmark.file), ["a_b", "a_b-2", ".._c"]);
    }
}
