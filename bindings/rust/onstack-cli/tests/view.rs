// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack view` as a person runs it. The page itself is tried in a browser: tests/view at the top of the repository.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("view-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("shop.folded"), "main;parse 3\nmain;render 5\n").unwrap();
    path
}

fn view(directory: &PathBuf, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack")).current_dir(directory).arg("view").args(arguments).output().unwrap()
}

#[test]
fn the_page_lies_beside_where_one_is_and_the_name_is_told() {
    let directory = directory("name");
    let ran = view(&directory, &["shop.folded"]);
    assert!(ran.status.success() && ran.stdout.is_empty(), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "onstack: shop.html: open it in a browser\n");
    let page = fs::read_to_string(directory.join("shop.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<title>shop.folded</title>"));
    let piped = view(&directory, &["shop.folded", "-o", "-"]);
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), page);
    assert!(piped.stderr.is_empty());
}

#[test]
fn what_cannot_be_compared_makes_no_page() {
    let directory = directory("types");
    let strings = ["", "cpu", "nanoseconds"].map(|text| [&[0x32, text.len() as u8], text.as_bytes()].concat());
    fs::write(directory.join("other.pb"), [vec![0x0a, 4, 8, 1, 16, 2], strings.concat()].concat()).unwrap();
    for arguments in [["--before", "other.pb"], ["--before", "missing.pb"], ["--focus", "nobody"]] {
        let ran = view(&directory, &[&["shop.folded"][..], &arguments].concat());
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{text}");
        assert!(
            text.contains("compare profiles of one type")
                || text.contains("missing.pb")
                || text.contains("no sample is left"),
            "{text}"
        );
        assert!(!directory.join("shop.html").exists());
    }
}
