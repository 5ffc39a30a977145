// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack record --children`: a script that starts several programs, by every way that a shell has.
#![cfg(feature = "preload")]

mod pprof;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onstack_profile::Profile;

struct Place(PathBuf);

impl Place {
    /// With two programs of other names that work until they have used 0.4 s of CPU time, and a script that starts them.
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("onstack-children-{name}-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let source = r#"
#include <time.h>
volatile unsigned sum;
__attribute__((noinline)) void FUNCTION(void) { for (unsigned i = 0; i < 1000000; i++) sum += i; }
int main(void) {
  struct timespec now;
  do FUNCTION(), clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  while (now.tv_sec == 0 && now.tv_nsec < 400000000);
  return 0;
}
"#;
        let place = Self(place);
        place.compile("miller", source, "-DFUNCTION=grind");
        place.compile("baker", source, "-DFUNCTION=knead");
        // Beside it, in a subshell, and in place of a shell.
        place.script("./miller & (./baker; true)\nwait\nsh -c 'exec ./miller'\nexit 5\n");
        place
    }

    fn compile(&self, program: &str, source: &str, option: &str) {
        fs::write(self.0.join("code.c"), source).unwrap();
        let mut command = Command::new("cc");
        command.current_dir(&self.0).args(["-O1", "-D_GNU_SOURCE", option, "code.c", "-o", program]);
        assert!(command.status().expect("a C compiler").success());
    }

    fn script(&self, script: &str) {
        fs::write(self.0.join("script"), script).unwrap();
    }

    fn record(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
        command.env_remove("ONSTACK_PRELOAD").env("XDG_CACHE_HOME", self.0.join("cache")).current_dir(&self.0);
        command.args(["record", "-F", "499"]).args(arguments).args(["--", "sh", "script"]).output().unwrap()
    }

    fn profiles(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.to_string_lossy().ends_with(".pb.gz")).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn read(path: &Path) -> Profile {
    pprof::read(&fs::read(path).unwrap())
}

#[test]
fn a_profile_for_each_process() {
    let place = Place::new("each");
    let ended = place.record(&["--children"]);
    assert_eq!(ended.status.code(), Some(5), "{}", said(&ended));
    let profiles: Vec<Profile> = place.profiles().iter().map(|path| read(path)).collect();
    let with = |function: &str| profiles.iter().filter(|profile| profile.top().get(function).is_some()).count();
    assert_eq!((with("grind"), with("knead")), (2, 1), "{}", said(&ended));
    assert!(profiles
        .iter()
        .all(|profile| profile.top().get("grind").is_none() || profile.top().get("knead").is_none()));
    assert!(said(&ended).contains("wrote profile.%p.pb.gz"), "{}", said(&ended));
    let left = fs::read_dir(&place.0).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".onstack-")));
}

#[test]
fn one_profile_of_all_tells_them_apart() {
    let place = Place::new("merge");
    let ended = place.record(&["--children=merge", "-o", "all.pb.gz"]);
    assert_eq!(ended.status.code(), Some(5), "{}", said(&ended));
    assert_eq!(place.profiles(), [place.0.join("all.pb.gz")]);
    let profile = read(&place.0.join("all.pb.gz"));
    let sums = profile.by_label("process");
    let sum =
        |name: &str| sums.values.iter().find(|(value, _)| value.as_deref() == Some(name)).map_or(0, |(_, sum)| *sum);
    // The two millers used 0.8 s together.
    assert!(sum("miller") > 600_000_000 && sum("baker") > 300_000_000, "{sums}");
    assert_eq!(sums.values.iter().map(|(_, sum)| sum).sum::<i64>(), sums.total);
    let processes = profile.by_label("process_id").values;
    let ids: BTreeSet<_> = processes.iter().filter(|(_, sum)| *sum > 300_000_000).map(|(id, _)| id).collect();
    assert_eq!(ids.len(), 3, "{processes:?}");
    let mut millers = profile.clone();
    millers.retain_label("process", |name| name == Some("miller"));
    assert!(millers.top().get("grind").is_some() && millers.top().get("knead").is_none());
    // The books of all processes are closed together.
    let counters = profile.summary().counters;
    let number = |key: &str| counters[key].parse::<u64>().unwrap();
    let dropped: u64 = counters
        .keys()
        .filter(|key| key.starts_with("dropped_") && *key != "dropped_sink")
        .map(|key| number(key))
        .sum();
    assert_eq!(number("ticks"), number("recorded") + dropped + number("unattributed"), "{counters:?}");
    assert_eq!(number("period"), 1_000_000_000 / 499);
}

#[test]
fn counters_of_a_process_without_samples_are_in_the_profile_of_all() {
    let place = Place::new("silent");
    // Ticks that a thread blocks are counted, and are no samples.
    let source = r#"
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void) {
  unsigned long all = ~0ul;
  struct timespec now;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, sizeof(all));
  do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  while (now.tv_sec == 0 && now.tv_nsec < 400000000);
  return 0;
}
"#;
    place.compile("deaf", source, "-g");
    place.script("./deaf\n./baker\n");
    let ended = place.record(&["--children=merge", "-o", "all.pb.gz"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let profile = read(&place.0.join("all.pb.gz"));
    assert!(profile.by_label("process").values.iter().all(|(name, _)| name.as_deref() != Some("deaf")));
    let counters = profile.summary().counters;
    // Nearly two hundred ticks of a period of 2 ms.
    assert!(counters["blocked"].parse::<u64>().unwrap() > 100, "{counters:?}");
}

/// Works for so many milliseconds and says what it used in all.
const SHORT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double used(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}
int main(int count, char **words) {
  const double end = used() + atof(words[count - 1]) / 1000;
  while (used() < end) continue;
  printf("%.6f\n", used());
  return 0;
}
"#;

/// The seconds that processes have said.
fn clocks(output: &Output) -> f64 {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse::<f64>().unwrap()).sum()
}

/// The line of what no sample stands for.
fn rest(output: &Output) -> Option<String> {
    said(output).lines().find(|line| line.starts_with("onstack: samples stand for ")).map(str::to_owned)
}

#[test]
fn time_of_short_processes_is_said_to_be_missing() {
    let place = Place::new("short");
    place.compile("short", SHORT, "-g");
    let many = |count: u32| format!("i=0\nwhile [ $i -lt {count} ]; do ./short 3; i=$((i + 1)); done\n./baker\n");
    place.script(&many(100));
    let ended = place.record(&["--children=merge", "-o", "all.pb.gz"]);
    let profile = read(&place.0.join("all.pb.gz"));
    let used = profile.comments().find_map(|comment| comment.strip_prefix("onstack.process cpu_ns="));
    let used = used.expect("the kernel's account").parse::<f64>().unwrap() / 1e9;
    assert!(used > clocks(&ended) + 0.4 && clocks(&ended) > 0.3, "{used}: {}", said(&ended));
    let numbers = format!("samples stand for {:.2} of {used:.2} s of CPU time", profile.top().total as f64 / 1e9);
    assert!(rest(&ended).is_some_and(|line| line.contains(&numbers)), "{numbers}: {}", said(&ended));
    // The last line, and said to nobody who wants none.
    assert_eq!(rest(&ended).as_deref(), said(&ended).lines().last());
    place.script(&many(30));
    assert_eq!(said(&place.record(&["--children=merge", "--quiet", "-o", "all.pb.gz"])), "");
}

#[test]
fn processes_of_50_ms_weigh_what_they_used() {
    let place = Place::new("fifty");
    place.compile("short", SHORT, "-g");
    place.script("i=0\nwhile [ $i -lt 20 ]; do ./short 50; i=$((i + 1)); done\n");
    let ended = place.record(&["--children"]);
    let profiles: Vec<Profile> = place.profiles().iter().map(|path| read(path)).collect();
    let (mut sampled, mut ticks, mut count) = (0.0, 0.0, 0);
    for profile in profiles.iter().filter(|profile| profile.top().get("main").is_some()) {
        let counters = profile.summary().counters;
        let number = |key: &str| counters[key].parse::<f64>().unwrap();
        ticks += number("ticks") * number("period") / 1e9;
        sampled += profile.top().total as f64 / 1e9;
        count += 1;
    }
    let clocks = clocks(&ended);
    println!("{count} processes, {:.2} in samples, {:.2} in ticks", sampled / clocks, ticks / clocks);
    assert!(count >= 18 && clocks > 1.0, "{count} of {clocks} s: {}", said(&ended));
    // Timers of CPU time come with the kernel's own tick, of 4 or 10 ms: the last one of a process is late by half of it.
    assert!((0.75..1.1).contains(&(ticks / clocks)) && sampled / clocks > 0.5, "{sampled} {ticks} of {clocks}");
}

#[test]
fn one_name_for_several_files_is_refused_before_anything_runs() {
    let place = Place::new("names");
    let ended = place.record(&["--children", "-o", "one.pb.gz"]);
    assert!(ended.status.code() == Some(2) && said(&ended).contains("put %p into --output"), "{}", said(&ended));
    assert!(place.profiles().is_empty() && said(&place.record(&["--children=all"])).contains("each, merge"));
    assert_eq!(place.record(&["--children", "-o", "x.%p.pb.gz"]).status.code(), Some(5));
    assert!(place.profiles().len() >= 3);
}
