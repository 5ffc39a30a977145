// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the holders of locks did, in the words of the same profile.

use std::fmt::Write;

use onstack::plain::Plain;
use onstack::Profile;

/// Threads that held others up, and of each the stacks that are shown.
const HOLDERS: usize = 5;
const STACKS: usize = 2;
/// Frames of a stack, from the leaf on.
const FRAMES: usize = 6;

/// Lines about who held the locks that most was waited for: where that thread spent its time. A sample of the one who waits
/// does not have the other's stack, so this is of the whole profile and not of those moments. Nothing without a holder.
pub fn holders(profile: &Profile) -> String {
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
