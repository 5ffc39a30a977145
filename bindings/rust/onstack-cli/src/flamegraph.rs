// SPDX-License-Identifier: MIT OR Apache-2.0

use std::path::PathBuf;

use clap::Args;
use onstack::flamegraph::Options;

use crate::failure::Failure;
use crate::input;
use crate::output;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: input::Shown,
    /// The headline of the picture
    #[arg(long, default_value = "Flame Graph")]
    title: String,
    /// Where the picture goes; the standard output unless given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut options = Options::default();
    options.title.clone_from(&arguments.title);

    // Drawn as a whole before the output is touched: a failure leaves no half of a picture.
    let mut picture = Vec::new();
    let drawn = arguments.input.read()?.flamegraph_with_options(&mut picture, &mut options);
    drawn.map_err(|error| Failure::new(arguments.input.path(), error))?;
    output::write(arguments.output.as_deref(), &picture)
}
