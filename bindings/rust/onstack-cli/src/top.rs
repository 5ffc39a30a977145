// SPDX-License-Identifier: MIT OR Apache-2.0

use std::path::PathBuf;

use clap::Args;

use crate::failure::{write, Failure};
use crate::input::Input;

#[derive(Args)]
pub struct Arguments {
    /// A pprof profile (compressed or not); `-` is the standard input
    input: PathBuf,
    /// How many functions are shown
    #[arg(short = 'n', long, value_name = "FUNCTIONS", default_value_t = 30)]
    count: usize,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match Input::read(&arguments.input)? {
        Input::Pprof(report) => {
            let top = report.top();
            write(None, format!("{:.*}", arguments.count, top).as_bytes())
        }
        Input::Folded(_) => Err(Failure::new(
            &arguments.input,
            "holds folded stacks; a table needs a pprof profile (*.pb.gz). `onstack flamegraph` takes both",
        )),
    }
}
