// SPDX-License-Identifier: MIT OR Apache-2.0
//! `convert`: a profile in another form.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::format::{Format, Resource};
use crate::shape::Shape;
use crate::{input, output};

#[derive(Args)]
pub struct Arguments {
    /// A pprof profile (compressed or not) or folded stacks; `-` is the standard input
    input: PathBuf,
    /// What it becomes
    #[arg(long, value_enum, value_name = "NAME")]
    format: Format,
    /// Where it goes; the standard output unless given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which of the profile's values readers show, and folded, firefox and chrome have; as inuse_space of a heap profile
    #[arg(long, value_name = "NAME")]
    sample_type: Option<String>,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    resource: Resource,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.format.check(&arguments.resource)?;
    let mut profile = input::read_type(&arguments.input, arguments.sample_type.as_deref())?;
    arguments.shape.apply(&mut profile).map_err(|why| Failure::new(&arguments.input, why))?;
    let bytes = arguments.format.bytes(&profile, &arguments.resource, &arguments.input)?;
    output::write(arguments.output.as_deref(), &bytes)
}
