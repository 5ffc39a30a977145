// SPDX-License-Identifier: MIT OR Apache-2.0
//! `view`: a profile as one HTML file, which needs no network and no server.

mod data;
mod encode;
mod times;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use onstack_profile::Plain;
use onstack_profile::Profile;

use crate::failure::Failure;
use crate::{diff, input, output};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    input: input::Shown,
    /// A profile from before, of the same type: widths are those of INPUT, red has grown, blue has shrunk
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Take BEFORE for as much as INPUT, for runs of different length or load
    #[arg(long, requires = "before")]
    normalize: bool,
    /// The headline; the input's name unless given
    #[arg(long)]
    title: Option<String>,
    /// Where the page goes; unless given, profile.html for profile.pb.gz, in this directory. `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The page's parts. They name no other file: the page is whole by itself.
const PAGE: &str = include_str!("view/page.html");
const STYLE: &str = include_str!("view/page.css");
const SCRIPTS: [&str; 6] = [
    include_str!("view/decode.js"),
    include_str!("view/calls.js"),
    include_str!("view/heat.js"),
    include_str!("view/graph.js"),
    include_str!("view/table.js"),
    include_str!("view/page.js"),
];

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = arguments.input.path();
    let profile = arguments.input.read()?;
    let before = arguments.before.as_deref().map(|before| arguments.input.read_other(before)).transpose()?;
    let mut factor = 1.0;
    if let (Some(before), Some(name)) = (&before, &arguments.before) {
        let (old, new) = (before.top(), profile.top());
        diff::check_types((name, &old), (path, &new))?;
        if arguments.normalize {
            factor = diff::factor((name, &old), (path, &new))?;
        }
    }
    let title = arguments.title.clone().unwrap_or_else(|| title(path, arguments.before.as_deref()));
    let bytes = page(&title, &profile, before.as_ref(), factor);
    let made = arguments.output.clone().unwrap_or_else(|| default_output(path));
    output::write(Some(&made), bytes.as_bytes())?;
    // The page has it behind a button.
    profile.summary().unseen.iter().for_each(|allocator| eprintln!("onstack: {allocator}"));
    if arguments.output.is_none() {
        eprintln!("onstack: {}: open it in a browser", output::name(&made));
    }
    Ok(())
}

fn title(path: &Path, before: Option<&Path>) -> String {
    match before {
        Some(before) => format!("{} to {}", before.display(), path.display()),
        None if path == Path::new("-") => "Profile".into(),
        None => path.display().to_string(),
    }
}

fn default_output(path: &Path) -> PathBuf {
    if path == Path::new("-") {
        return "-".into();
    }
    let name = path.file_name().unwrap_or(OsStr::new("profile")).to_string_lossy();
    let ends = [".gz", ".pb", ".folded", ".txt"];
    let bare =
        ends.iter().fold(&*name, |name, end| name.strip_suffix(end).filter(|rest| !rest.is_empty()).unwrap_or(name));
    format!("{bare}.html").into()
}

fn page(title: &str, profile: &Profile, before: Option<&Profile>, factor: f64) -> String {
    let data = data::encoded(profile, before, factor);
    let title = escaped(&Plain(title).to_string());
    let losses = escaped(&profile.summary().to_string());
    let (mut text, mut rest) = (String::with_capacity(PAGE.len() + data.len() + (64 << 10)), PAGE);
    let script = SCRIPTS.concat();
    // Each is replaced once, from the front: what is put in is never looked at.
    let parts = [
        ("{title}", &*title),
        ("{style}", STYLE),
        ("{title}", &title),
        ("{losses}", &losses),
        ("{data}", &data),
        ("{script}", &script),
    ];
    for (mark, with) in parts {
        let (head, tail) = rest.split_once(mark).unwrap_or((rest, ""));
        text += head;
        text += with;
        rest = tail;
    }
    text + rest
}

/// Text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_named_as_the_profile() {
        let of = |path: &str| default_output(Path::new(path)).to_string_lossy().into_owned();
        assert_eq!(["a/profile.pb.gz", "x.folded", "-", ".gz"].map(of), ["profile.html", "x.html", "-", ".gz.html"]);
    }

    #[test]
    fn nothing_that_a_profile_says_is_obeyed() {
        let profile = Profile::from_folded("</script><script>alert(1)</script>;{data} 1\n").unwrap();
        let page = page("<b>{data}", &profile, None, 1.0);
        assert!(page.contains("<title>&lt;b&gt;{data}</title>") && !page.contains("alert(1)"));
        assert_eq!(page.matches("<script").count(), 2, "the data and the scripts");
        assert!(page.contains("default-src 'none'") && !page.contains("http://") && !page.contains("https://"));
    }
}
