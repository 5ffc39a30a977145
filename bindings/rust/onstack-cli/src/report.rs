// SPDX-License-Identifier: MIT OR Apache-2.0
//! `report` and `stat`: a profile in the terminal.

use std::fmt::Write;

use clap::Args;
use onstack_profile::{Plain, Profile};

use crate::failure::Failure;
use crate::filter;
use crate::input;
use crate::output;
use crate::terminal;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: input::Shown,
    /// How many lines are shown
    #[arg(short = 'n', long, value_name = "FUNCTIONS", default_value_t = 30)]
    count: usize,
    /// Show names whole; otherwise a terminal gets lines that it can hold
    #[arg(long)]
    wide: bool,
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

impl Arguments {
    fn show(&self, text: String) -> Result<(), Failure> {
        let text = if self.wide { text } else { terminal::fitted(text) };
        output::write(None, text.as_bytes())
    }
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
    let mut profile = arguments.input.read()?;
    if arguments.waits {
        filter::check_key(&profile, "state").map_err(|why| {
            Failure::new(arguments.input.path(), format!("{why}; onstack record --clock wall makes such profiles"))
        })?;
        let holders = holders(&profile);
        profile.retain_label("state", |state| state.is_some_and(|state| state != "running"));
        let waits = profile.by_labels(&["state", "wait", "on", "holder"]);
        return arguments.show(format!("{:.*}{holders}", arguments.count, waits));
    }
    if let Some(key) = &arguments.by {
        filter::check_key(&profile, key).map_err(|why| Failure::new(arguments.input.path(), why))?;
        return arguments.show(format!("{:.*}", arguments.count, profile.by_label(key)));
    }
    let mut text = String::new();
    if !arguments.tree || arguments.table {
        let _ = write!(text, "{:.*}", arguments.count, profile.top());
    }
    if arguments.tree {
        let separator = if arguments.table { "\n" } else { "" };
        let tree = profile.tree();
        let _ = write!(text, "{separator}{}", tree.display(arguments.depth, arguments.least / 100.0));
        if !arguments.table {
            profile.summary().unseen.iter().for_each(|allocator| text += &format!("Note: {allocator}\n"));
        }
    }
    arguments.show(text)
}

pub fn stat(arguments: &StatArguments) -> Result<(), Failure> {
    let summary = arguments.input.read()?.summary();
    output::write(None, summary.to_string().as_bytes())
}

/// Threads that held others up, and of each the stacks that are shown.
const HOLDERS: usize = 5;
const STACKS: usize = 2;
/// Frames of a stack, from the leaf on.
const FRAMES: usize = 6;

/// Lines about who held the locks that most was waited for: where that thread spent its time. A sample of the one who waits
/// does not have the other's stack, so this is of the whole profile and not of those moments. Nothing without a holder.
fn holders(profile: &Profile) -> String {
    let mut text = String::new();
    let held = profile.by_label("holder").values.into_iter();
    for (holder, waited) in held.filter_map(|(holder, waited)| Some((holder?, waited))).take(HOLDERS) {
        let Some((_, thread)) = holder.rsplit_once('/') else { continue };
        let mut its = profile.clone();
        its.retain_label("thread_id", |id| id == Some(thread));
        its.retain_label("holder", |other| other.is_none()); // while it waits for a lock itself it is held up, too
        let mut stacks: Vec<_> = its.stacks();
        let total: i64 = stacks.iter().map(|(_, value)| value).sum();
        if total == 0 || waited == 0 {
            continue;
        }
        stacks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        if text.is_empty() {
            text.push_str("Where the holders were, in the whole profile\n");
        }
        for (frames, value) in stacks.into_iter().take(STACKS) {
            let shown: Vec<_> = frames.iter().take(FRAMES).map(|name| Plain(name).to_string()).collect();
            let more = if frames.len() > FRAMES { " < ..." } else { "" };
            let share = 100.0 * value as f64 / total as f64;
            let _ = writeln!(text, "{share:>6.2}%  {}  {}{more}", Plain(&holder), shown.join(" < "));
        }
    }
    text
}
