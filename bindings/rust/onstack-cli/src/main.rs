// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack`: records profiles, and shows those of any profiler that writes pprof's format.

mod failure;
mod flamegraph;
mod input;
mod live;
mod preload;
mod program;
mod record;
mod report;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Record CPU profiles, and show them: tables, trees, flame graphs
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program and profile it
    Record(record::Arguments),
    /// Show the functions that spent most, or the tree of calls
    Report(report::Arguments),
    /// List what each function spent, as `report` does
    Top(report::TopArguments),
    /// Draw a flame graph (SVG)
    Flamegraph(flamegraph::Arguments),
    /// Say how stacks were found, and what was lost and why
    Stat(report::StatArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Record(arguments) => record::run(&arguments),
        Command::Report(arguments) => report::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Top(arguments) => report::top(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Flamegraph(arguments) => flamegraph::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Stat(arguments) => report::stat(&arguments).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("onstack: {failure}");
        failure.code()
    })
}
