// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack`: records profiles, and shows, compares and sends those of any profiler that writes pprof's format.

#[cfg(carries_preload)]
mod carried;
mod children;
mod completions;
mod diff;
mod diff_graph;
mod failure;
mod filter;
mod flamegraph;
mod format;
mod input;
mod live;
mod memory;
mod output;
mod preload;
mod program;
#[cfg(feature = "push")]
mod push;
mod record;
mod report;
mod signals;
mod status;
mod terminal;
mod timeline;
mod trust;
mod unit;
mod verdict;
mod view;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Record CPU profiles, and show them: tables, trees, flame graphs, changes
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
    /// Say what changed from one profile to another, function by function
    Diff(diff::Arguments),
    /// Say what a process's memory was made of, and which functions' memory grows
    Memory(memory::Arguments),
    /// Draw a flame graph (SVG)
    Flamegraph(flamegraph::Arguments),
    /// Write a profile as one HTML page: flame graph, table, losses, to search and to click through
    View(view::Arguments),
    /// Write a profile in another form: OpenTelemetry's, pprof's, folded stacks
    Convert(format::Arguments),
    /// Say how stacks were found, and what was lost and why
    Stat(report::StatArguments),
    /// Send profiles to Pyroscope, another server with its ingest endpoint, or an OpenTelemetry collector
    #[cfg(feature = "push")]
    Push(push::Arguments),
    /// Write the completions of a shell to the standard output
    Completions(completions::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Record(arguments) => record::run(&arguments),
        Command::Report(arguments) => report::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Memory(arguments) => memory::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Flamegraph(arguments) => flamegraph::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::View(arguments) => view::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Convert(arguments) => format::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Stat(arguments) => report::stat(&arguments).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "push")]
        Command::Push(arguments) => push::run(&arguments),
        Command::Completions(arguments) => {
            completions::run(&arguments, Arguments::command()).map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|failure| {
        eprintln!("onstack: {failure}");
        failure.code()
    })
}
