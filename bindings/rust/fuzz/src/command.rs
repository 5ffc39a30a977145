// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command line reads by itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use onstack_profile::Profile;

use crate::{diff_graph, own_file, program as program_reader, status as status_reader};

/// What the preload says of itself, in a process that may be anything: lines for people have no ends inside.
pub fn status(data: &[u8]) {
    let status = status_reader::Status::parse(data);
    let comments = status.comments();
    assert!(comments[0].starts_with("onstack.stats"));
    assert!(comments[1..].iter().all(|line| line.starts_with("onstack.")));
    let line = status.line(Duration::from_millis(1500));
    assert!(comments.iter().chain([&line]).all(|line| !line.contains('\n')));
}

/// A program or a script of any content: it can be profiled, or it is said why not.
pub fn program(data: &[u8]) {
    let Some(path) = own_file("program") else { return };
    fs::write(&path, data).expect("the temporary directory can be written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it is ours");
    if let Err(failure) = program_reader::check(&path) {
        assert!(failure.to_string().len() > path.as_os_str().len() + 2);
    }
}

/// Two profiles, as folded stacks with `--` between: a picture, or a reason why there is none.
pub fn diff(data: &[u8]) {
    let Some((before, after)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once("\n--\n")) else {
        return;
    };
    let (Ok(before), Ok(after)) = (Profile::from_folded(before), Profile::from_folded(after)) else { return };
    let side = |profile: &Profile, factor| diff_graph::Side::new(Path::new("profile"), profile.tree(), factor);
    for factor in [1.0, after.top().total as f64 / before.top().total as f64] {
        match diff_graph::draw(side(&before, factor), side(&after, 1.0), "changes".into()) {
            Ok(picture) => assert!(picture.starts_with(b"<?xml")),
            Err(failure) => assert!(!failure.to_string().is_empty()),
        }
    }
}
