// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack`: tables and flame graphs out of profiles.

mod failure;
mod flamegraph;
mod input;
mod top;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tables and flame graphs out of profiles
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draw a flame graph (SVG) of folded stacks or of a pprof profile
    Flamegraph(flamegraph::Arguments),
    /// List what each function of a pprof profile spent
    Top(top::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Flamegraph(arguments) => flamegraph::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("onstack: {failure}");
            ExitCode::FAILURE
        }
    }
}
