// SPDX-License-Identifier: MIT OR Apache-2.0
//! `completions`: what a shell needs to complete commands and options.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output;

#[derive(Args)]
pub struct Arguments {
    /// The shell that the script is for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(arguments: &Arguments, mut command: Command) -> Result<(), Failure> {
    // Gathered first: the generator panics where its writer fails, as it does at a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "onstack", &mut script);
    output::write(None, &script)
}
