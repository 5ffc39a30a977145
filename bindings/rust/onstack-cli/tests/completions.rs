// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack completions`: a real shell takes the script and completes with it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn completions(shell: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack")).args(["completions", shell]).output().expect("the program runs")
}

fn script(shell: &str) -> PathBuf {
    let output = completions(shell);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("completions.{shell}"));
    fs::write(&path, output.stdout).unwrap();
    path
}

/// Nothing where the shell is not installed, and that is said.
fn shell(name: &str, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(name).args(arguments).output() else {
        eprintln!("SKIPPED: {name} is not installed: its completions were NOT tried");
        return None;
    };
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What bash offers for the last word of a line, through the function that the script registers.
const COMPLETE: &str = r#"
source "$1"
shift
registered=$(complete -p onstack) || exit 1
[[ $registered =~ -F\ ([^ ]+) ]] || exit 1
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
"${BASH_REMATCH[1]}" onstack "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[test]
fn bash_completes_commands_options_and_values() {
    let path = script("bash");
    let path = path.to_str().unwrap();
    if shell("bash", &["-n", path]).is_none() {
        return;
    }
    let cases: [(&[&str], &[&str], &[&str]); 5] = [
        (&["onstack", ""], &["record", "report", "diff", "flamegraph", "completions"], &["--normalize"]),
        (&["onstack", "re"], &["record", "report"], &["diff", "stat"]),
        (&["onstack", "diff", "--"], &["--normalize", "--flamegraph", "--lines"], &["--tree", "--clock"]),
        (&["onstack", "record", "--clock", ""], &["cpu", "wall", "wall-signal"], &["record"]),
        (&["onstack", "completions", ""], &["bash", "zsh", "fish"], &["diff"]),
    ];
    for (words, offered, not_offered) in cases {
        let mut arguments = vec!["--norc", "--noprofile", "-c", COMPLETE, "bash", path];
        arguments.extend(words);
        let reply = shell("bash", &arguments).unwrap();
        let reply: Vec<_> = reply.lines().collect();
        assert!(offered.iter().all(|word| reply.contains(word)), "{words:?}: {reply:?}");
        assert!(!not_offered.iter().any(|word| reply.contains(word)), "{words:?}: {reply:?}");
    }
}

#[test]
fn zsh_and_fish_take_theirs() {
    for name in ["zsh", "fish"] {
        let path = script(name);
        shell(name, &["-n", path.to_str().unwrap()]);
        assert!(fs::read_to_string(path).unwrap().contains("normalize"), "{name}");
    }
}

#[test]
fn a_shell_that_is_not_known_and_a_pipe_that_is_closed() {
    assert_eq!(completions("tcsh").status.code(), Some(2));
    let mut child = Command::new(env!("CARGO_BIN_EXE_onstack"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_manual_has_every_command() {
    let help = Command::new(env!("CARGO_BIN_EXE_onstack")).arg("help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands: Vec<&str> = commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 5, "{help}");
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/onstack.1")).unwrap();
    let lacking = commands.iter().filter(|command| !manual.contains(&format!("\n.It Cm {command}\n")));
    assert_eq!(lacking.collect::<Vec<_>>(), Vec::<&&str>::new());
}
