// SPDX-License-Identifier: MIT OR Apache-2.0
//! When things happen, in profiles of a program that does one thing after the other, and in the form of the Firefox Profiler.

mod pprof;
mod preloaded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use preloaded::{library, place};
use serde_json::Value;

/// `first` for 0.4 s, nothing for 0.3 s, `second` for 0.4 s; with a word the same in a child, and then here.
const SOURCE: &str = r#"
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
volatile unsigned sum;
static int used(double since, double seconds) {
  struct timespec now;
  for (unsigned i = 0; i < 100000; i++) sum += i;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec / 1e9 - since >= seconds;
}
static double now(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}
__attribute__((noinline)) void first(void) { for (double since = now(); !used(since, 0.4);) continue; }
__attribute__((noinline)) void second(void) { for (double since = now(); !used(since, 0.4);) continue; }
int main(int count, char **words) {
  const struct timespec some = {0, 300000000};
  if (count > 1 && fork() == 0) count = 1;
  else if (count > 1) wait(0);
  first();
  nanosleep(&some, 0);
  second();
  return 0;
}
"#;

fn program() -> PathBuf {
    static ONCE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    ONCE.get_or_init(|| {
        let (code, program) = (place("phases.c"), place("phases"));
        fs::write(&code, SOURCE).unwrap();
        let built = Command::new("cc").args(["-O1", "-g", "-o"]).arg(&program).arg(&code).status();
        assert!(built.expect("a C compiler").success());
        program
    })
    .clone()
}

fn onstack(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack")).args(arguments).output().expect("the command runs")
}

fn record(library: &Path, output: &Path, options: &[&str], words: &[&str]) {
    let program = program();
    let (library, output) = (library.to_str().unwrap(), output.to_str().unwrap());
    let fixed = ["record", "-F", "199", "--preload", library, "-o", output];
    let ended = onstack(&[&fixed[..], options, &["--", program.to_str().unwrap()], words].concat());
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    if output.ends_with(".pb.gz") {
        pprof::read(&fs::read(output).unwrap());
    }
}

fn convert(input: &Path, format: &str) -> Value {
    let converted = onstack(&["convert", "--format", format, input.to_str().unwrap()]);
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    serde_json::from_slice(&converted.stdout).expect("JSON")
}

#[test]
fn processes_have_threads_of_their_own() {
    let Some(library) = library() else { return };
    let output = place("phases-merged.pb.gz");
    record(&library, &output, &["--timeline", "--children=merge"], &["twice"]);
    let profile = convert(&output, "firefox");
    let threads = profile["threads"].as_array().unwrap();
    let mut processes: Vec<String> = threads.iter().map(|thread| thread["pid"].to_string()).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!((threads.len(), processes.len()), (2, 2), "{processes:?}");
    // The program waits for its child, and works then: its first sample comes later than the child's.
    let first = |thread: &Value| thread["samples"]["timeDeltas"][0].as_f64().unwrap();
    let apart = first(&threads[0]) - first(&threads[1]);
    assert!(apart.abs() > 700.0, "{apart} ms between them");
}

#[test]
fn firefox_has_the_samples_in_order() {
    let Some(library) = library() else { return };
    let output = place("phases.json");
    record(&library, &output, &["--format", "firefox", "--clock", "wall"], &[]);
    let profile: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    assert_eq!(profile["meta"]["symbolicated"], true);
    let threads = profile["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 1);
    let samples = &threads[0]["samples"];
    let deltas = samples["timeDeltas"].as_array().unwrap();
    assert!(deltas.iter().all(|delta| delta.as_f64().unwrap() >= 0.0), "{deltas:?}");
    let (weights, cpu) = (&samples["weight"], &samples["threadCPUDelta"]);
    let sum = |list: &Value| list.as_array().unwrap().iter().filter_map(Value::as_f64).sum::<f64>();
    assert!(sum(weights) > 150.0, "{weights}");
    // Microseconds on a processor.
    assert!((600_000.0..1_000_000.0).contains(&sum(cpu)), "{cpu}");
    let markers = threads[0]["markers"]["data"].as_array().unwrap();
    let waits: Vec<_> = markers.iter().filter(|data| data["type"] == "wait").collect();
    assert!(!waits.is_empty(), "{markers:?}");
    // It slept once, between 0.4 s of work and as much again.
    let (columns, at) =
        (&threads[0]["markers"], |list: &str, index: usize| threads[0]["markers"][list][index].as_f64());
    let longest = (0..markers.len()).max_by(|&a, &b| {
        let length = |index| at("endTime", index).unwrap_or(0.0) - at("startTime", index).unwrap_or(0.0);
        length(a).total_cmp(&length(b))
    });
    let longest = longest.unwrap();
    let (begin, end) = (at("startTime", longest).unwrap(), at("endTime", longest).unwrap());
    assert!((250.0..400.0).contains(&(end - begin)), "{columns}");
    let busy_after = deltas.iter().map(|delta| delta.as_f64().unwrap()).sum::<f64>() - end;
    assert!(begin > 300.0 && busy_after > 300.0, "from {begin} to {end}, and {busy_after} ms more: {columns}");
    let names = profile["shared"]["stringArray"].as_array().or(threads[0]["stringArray"].as_array()).unwrap();
    assert!(names.iter().any(|name| name == "clock_nanosleep"), "{names:?}");
    // Frames have the category of their language.
    let categories = profile["meta"]["categories"].as_array().unwrap();
    let of_c = categories.iter().position(|one| one["name"] == "C" && one["color"] == "blue").expect("a category of C");
    let frames = [&profile["shared"]["frameTable"], &threads[0]["frameTable"]];
    let frames = frames.into_iter().find_map(|table| table["category"].as_array()).expect("a table of frames");
    assert!(frames.iter().filter(|category| **category == of_c).count() >= 3, "{frames:?}");
}

#[test]
fn what_has_no_times_is_refused() {
    let folded = place("timeless.folded");
    fs::write(&folded, "main;f 3\n").unwrap();
    let refused = onstack(&["convert", "--format", "firefox", folded.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("record it with --timeline"), "{text}");
    let refused = onstack(&["record", "--heap", "--format", "firefox", "--", "true"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("--heap"), "{text}");
    let refused = onstack(&["record", "--heap", "--timeline", "--", "true"]);
    assert_eq!(refused.status.code(), Some(2));
}
