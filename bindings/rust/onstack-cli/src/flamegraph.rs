// SPDX-License-Identifier: MIT OR Apache-2.0

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use onstack_profile::amount;
use onstack_profile::flamegraph::Options;
use onstack_profile::Profile;

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
    /// What the colours tell
    #[arg(long, value_enum, default_value_t = Colors::Language)]
    colors: Colors,
    /// Where the picture goes; the standard output unless given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colors {
    /// The language of each function: C blue, C++ purple, Rust orange, Go cyan, interpreted yellow, generated green
    Language,
    /// Nothing: warm colours at random
    Hot,
}

/// The total, and the share of each language by what its functions spent themselves.
fn subtitle(profile: &Profile) -> String {
    let summary = profile.summary();
    let mut text = format!("{} {}", summary.value_type, amount(summary.total, &summary.unit));
    let period = summary.counters.get("period").and_then(|text| text.parse::<f64>().ok());
    if let Some(period) = period.filter(|&ns| ns > 0.0 && summary.unit == "nanoseconds") {
        text += &format!(" at {:.0} Hz", 1e9 / period);
    }
    let share = |spent| 100.0 * spent as f64 / summary.total.max(1) as f64;
    for (language, spent) in profile.languages().into_iter().filter(|&(_, spent)| share(spent) >= 0.5) {
        text += &format!(", {} {:.0}%", language.name(), share(spent));
    }
    text
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let profile = arguments.input.read()?;
    let mut palette = profile.colors_by_language();
    let mut options = Options::default();
    options.title.clone_from(&arguments.title);
    options.subtitle = Some(subtitle(&profile));
    if arguments.colors == Colors::Language {
        options.palette_map = Some(&mut palette);
    }

    // Drawn as a whole before the output is touched: a failure leaves no half of a picture.
    let mut picture = Vec::new();
    let drawn = profile.flamegraph_with_options(&mut picture, &mut options);
    drawn.map_err(|error| Failure::new(arguments.input.path(), error))?;
    output::write(arguments.output.as_deref(), &picture)
}
