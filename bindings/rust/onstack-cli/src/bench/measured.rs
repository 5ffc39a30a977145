// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an operation of a benchmark cost, in a profile's comment.

use onstack::Profile;

use crate::record::USED;

const COMMENT: &str = "onstack.benchmark cpu_ns=";

pub struct Measured {
    pub name: String,
    /// CPU time of an operation.
    pub cpu_ns: f64,
}

impl Measured {
    pub fn of(profile: &Profile) -> Option<Self> {
        let text = profile.comments().find_map(|comment| comment.strip_prefix(COMMENT))?;
        let (cpu_ns, name) = text.split_once(" name=")?;
        let cpu_ns = cpu_ns.parse().ok().filter(|ns: &f64| ns.is_finite() && *ns >= 0.0)?;
        Some(Self { name: name.into(), cpu_ns })
    }

    pub fn comment(&self) -> String {
        format!("{COMMENT}{} name={}", self.cpu_ns, self.name)
    }

    pub fn text(&self) -> String {
        format!("{} of CPU an operation", amount(self.cpu_ns))
    }
}

pub fn amount(ns: f64) -> String {
    let (unit, name) = match ns {
        0.0..1e3 => (1.0, "ns"),
        1e3..1e6 => (1e3, "us"),
        1e6..1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{:.2}{name}", ns / unit)
}

/// That the program used, by the kernel's account: a Go program ends unseen, and its last part is not in the profile.
pub fn cpu_ns(profile: &Profile) -> Option<f64> {
    profile.comments().find_map(|comment| comment.strip_prefix(USED)?.parse().ok())
}

/// How many it used on average. On a busy machine it is less than it was alone, as an operation takes longer.
pub fn processors(profile: &Profile) -> f64 {
    profile.top().total as f64 / profile.duration().as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_read_again() {
        let mut profile = Profile::from_folded("main 1\n").unwrap();
        assert!(Measured::of(&profile).is_none());
        profile.add_comment("onstack.benchmark cpu_ns=nan name=x");
        assert!(Measured::of(&profile).is_none());
        let mut profile = Profile::from_folded("main 1\n").unwrap();
        profile.add_comment(&Measured { name: "a/b name=c".into(), cpu_ns: 12.5 }.comment());
        let read = Measured::of(&profile).unwrap();
        assert!(read.name == "a/b name=c" && read.cpu_ns == 12.5, "{}", read.name);
        assert_eq!([0.5, 1500.0, 2.5e6, 3e9].map(amount), ["0.50ns", "1.50us", "2.50ms", "3.00s"]);
    }
}
