// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other stacks for the samples of a profile: with labels as frames, and without what idle threads are in.

use clap::Args;
use onstack::Profile;

use crate::filter::check_key;

#[derive(Args)]
pub struct Shape {
    /// Begin stacks with the values of these labels, as `on,holder`
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    tagroot: Vec<String>,
    /// End stacks with the values of these labels
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    tagleaf: Vec<String>,
    /// Make one frame, as `[idle: Go]`, of the stacks of threads that wait for work in a runtime: Go, tokio, rayon, node
    #[arg(long)]
    fold_idle: bool,
}

impl Shape {
    /// A text about a key that no sample has.
    pub fn apply(&self, profile: &mut Profile) -> Result<(), String> {
        for key in self.tagroot.iter().chain(&self.tagleaf) {
            check_key(profile, key)?;
        }
        if self.fold_idle {
            profile.fold_idle();
        }
        profile.labels_as_leaves(&self.tagleaf.iter().map(String::as_str).collect::<Vec<_>>());
        profile.labels_as_roots(&self.tagroot.iter().map(String::as_str).collect::<Vec<_>>());
        Ok(())
    }
}
