// SPDX-License-Identifier: MIT OR Apache-2.0
//! `report`, `top` and `stat`: a profile in the terminal.

use std::fmt::Write;

use clap::Args;

use crate::failure::Failure;
use crate::filter;
use crate::input;
use crate::output;
use crate::terminal;
use crate::waits;

#[derive(Args)]
pub struct TopArguments {
    #[command(flatten)]
    input: input::Shown,
    /// How many lines are shown
    #[arg(short = 'n', long, value_name = "FUNCTIONS", default_value_t = 30)]
    count: usize,
    /// Show names whole; otherwise a terminal gets lines that it can hold
    #[arg(long)]
    wide: bool,
}

impl TopArguments {
    fn show(&self, text: String) -> Result<(), Failure> {
        let text = if self.wide { text } else { terminal::fitted(text) };
        output::write(None, text.as_bytes())
    }
}

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    top: TopArguments,
    /// Show what each value of the label KEY spent, as `request` or `thread`, in place of the table of functions
    #[arg(long, value_name = "KEY", conflicts_with = "tree")]
    by: Option<String>,
    /// Show what threads waited for (--clock wall): state, system call, lock or descriptor, and who has the lock
    #[arg(long, conflicts_with_all = ["by", "tree"])]
    waits: bool,
    /// Show who called whom, in place of the table of functions
    #[arg(long)]
    tree: bool,
    /// Show the table too, where the tree is asked for
    #[arg(long, requires = "tree")]
    table: bool,
    /// Levels of the tree; 0 shows all
    #[arg(long, value_name = "LEVELS", default_value_t = 0, requires = "tree")]
    depth: usize,
    /// Leave out what spent less than this share of the whole, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, requires = "tree", value_parser = percent)]
    least: f64,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "a number is expected")?;
    (0.0..=100.0).contains(&value).then_some(value).ok_or_else(|| "0 to 100 is expected".into())
}

#[derive(Args)]
pub struct StatArguments {
    #[command(flatten)]
    input: input::Shown,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut profile = arguments.top.input.read()?;
    if arguments.waits {
        filter::check_key(&profile, "state").map_err(|why| {
            Failure::new(arguments.top.input.path(), format!("{why}; onstack record --clock wall makes such profiles"))
        })?;
        let holders = waits::holders(&profile);
        profile.retain_label("state", |state| state.is_some_and(|state| state != "running"));
        let waits = profile.by_labels(&["state", "wait", "on", "holder"]);
        return arguments.top.show(format!("{:.*}{holders}", arguments.top.count, waits));
    }
    if let Some(key) = &arguments.by {
        filter::check_key(&profile, key).map_err(|why| Failure::new(arguments.top.input.path(), why))?;
        return arguments.top.show(format!("{:.*}", arguments.top.count, profile.by_label(key)));
    }
    let mut text = String::new();
    if !arguments.tree || arguments.table {
        let _ = write!(text, "{:.*}", arguments.top.count, profile.top());
    }
    if arguments.tree {
        let separator = if arguments.table { "\n" } else { "" };
        let tree = profile.tree();
        let _ = write!(text, "{separator}{}", tree.display(arguments.depth, arguments.least / 100.0));
        if !arguments.table {
            profile.summary().unseen.iter().for_each(|allocator| text += &format!("Note: {allocator}\n"));
        }
    }
    arguments.top.show(text)
}

pub fn top(arguments: &TopArguments) -> Result<(), Failure> {
    let top = arguments.input.read()?.top();
    arguments.show(format!("{:.*}", arguments.count, top))
}

pub fn stat(arguments: &StatArguments) -> Result<(), Failure> {
    let summary = arguments.input.read()?.summary();
    output::write(None, summary.to_string().as_bytes())
}
