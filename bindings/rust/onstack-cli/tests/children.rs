// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack record --children`: a script that starts several programs, by every way that a shell has.
#![cfg(feature = "preload")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onstack::Profile;

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
        fs::write(place.join("code.c"), source).unwrap();
        for (program, function) in [("miller", "grind"), ("baker", "knead")] {
            let mut command = Command::new("cc");
            command.current_dir(&place).args(["-O1", "code.c", "-o", program]).arg(format!("-DFUNCTION={function}"));
            assert!(command.status().expect("a C compiler").success());
        }
        // Beside it, in a subshell, and in place of a shell.
        let script = "./miller & (./baker; true)\nwait\nsh -c 'exec ./miller'\nexit 5\n";
        fs::write(place.join("script"), script).unwrap();
        Self(place)
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
    Profile::read(&fs::read(path).unwrap()[..]).unwrap()
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
    assert_eq!(number("period_ns"), 1_000_000_000 / 499);
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
    fs::write(place.0.join("deaf.c"), source).unwrap();
    let compiled = Command::new("cc").current_dir(&place.0).args(["-D_GNU_SOURCE", "deaf.c", "-o", "deaf"]).status();
    assert!(compiled.expect("a C compiler").success());
    fs::write(place.0.join("script"), "./deaf\n./baker\n").unwrap();
    let ended = place.record(&["--children=merge", "-o", "all.pb.gz"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let profile = read(&place.0.join("all.pb.gz"));
    assert!(profile.by_label("process").values.iter().all(|(name, _)| name.as_deref() != Some("deaf")));
    let counters = profile.summary().counters;
    // Nearly two hundred ticks of a period of 2 ms.
    assert!(counters["blocked"].parse::<u64>().unwrap() > 100, "{counters:?}");
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
