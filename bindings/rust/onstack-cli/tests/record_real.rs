// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack record` with the library that `make lib` leaves: real programs, every way in which they end.

mod pprof;
mod preloaded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onstack_profile::Profile;
use preloaded::{library, place};

/// Spends half a second in `hot`, with the word `long` more than two, then ends as the words in its arguments say.
fn burner() -> PathBuf {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
volatile unsigned sum;
__attribute__((noinline)) void hot(void) { for (unsigned i = 0; i < 1000000; i++) sum += i; }
static void *work(void *from) {
  struct timespec now;
  do {
    hot();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (now.tv_sec == 0 && now.tv_nsec < 500000000);
  return from;
}
int main(int count, char **words) {
  const char *how = count > 1 ? words[1] : "return";
  if (!strcmp(how, "blocks")) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
  }
  if (!strcmp(how, "unmaps")) {
    stack_t stack = {mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0, 65536};
    sigaltstack(&stack, NULL);
    munmap(stack.ss_sp, 65536);
  }
  if (!strcmp(how, "thread")) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
  } else {
    work(NULL);
  }
  if (!strcmp(how, "long")) {
    const time_t end = time(NULL) + 3;
    while (time(NULL) < end) hot();
  }
  if (!strcmp(how, "unseen")) {
    work(NULL);
    clock_t end = clock() + CLOCKS_PER_SEC * 7 / 10;
    while (clock() < end) hot();
    syscall(SYS_exit_group, 3);
  }
  if (!strcmp(how, "_exit")) _exit(3);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "exec")) execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
  return 3;
}
"#;
    static ONCE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    ONCE.get_or_init(|| {
        let (code, program) = (place("burner.c"), place("burner"));
        fs::write(&code, SOURCE).unwrap();
        let built = Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(&code).status();
        assert!(built.expect("a C compiler").success());
        program
    })
    .clone()
}

fn record(library: &Path, output: &Path, program: &[&str]) -> Output {
    let _ = fs::remove_file(output);
    Command::new(env!("CARGO_BIN_EXE_onstack"))
        .args(["record", "-F", "199", "-o"])
        .arg(output)
        .arg("--preload")
        .arg(library)
        .arg("--")
        .args(program)
        .output()
        .expect("the program runs")
}

fn read(output: &Path) -> Profile {
    pprof::read(&fs::read(output).unwrap())
}

#[test]
fn programs_are_recorded_however_they_end() {
    let Some(library) = library() else { return };
    let burner = burner();
    for (how, code) in [("return", 3), ("_exit", 3), ("exec", 3), ("thread", 3), ("abort", 128 + 6)] {
        let output = place(&format!("real-{how}.pb.gz"));
        let ended = record(&library, &output, &[burner.to_str().unwrap(), how]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{how}: {said}");
        let profile = read(&output);
        let (top, summary) = (profile.top(), profile.summary());
        let hot = top.get("hot").map_or(0, |entry| entry.flat);
        assert!(top.share(hot) > 0.8, "{how}: {top}");
        // Half a second of CPU time, give or take what a loaded machine does to timers.
        assert!((250_000_000..1_500_000_000).contains(&top.total), "{how}: {top}");
        assert_eq!(summary.counters.get("unwinder").map(String::as_str), Some("rules"), "{how}: {summary}");
        let bytes = profile.to_bytes();
        assert!(String::from_utf8_lossy(&bytes).contains("burner.c"), "{how}: no source files");
        assert!(said.contains(" ticks, ") && said.contains("wrote "), "{how}: {said}");
    }
}

/// As Go programs end. What was saved is there, and what is missing is said.
#[test]
fn the_end_that_is_not_seen_is_said_to_be_missing() {
    let Some(library) = library() else { return };
    let (output, burner) = (place("unseen.pb.gz"), burner());
    let run = record(&library, &output, &[burner.to_str().unwrap(), "unseen"]);
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(3), "{said}");
    let profile = read(&output);
    let used = profile.comments().find_map(|comment| comment.strip_prefix("onstack.process cpu_ns="));
    let used: f64 = used.expect("the kernel's account").parse().unwrap();
    let missing = 1.0 - profile.top().total as f64 / used;
    let line = said.lines().find(|line| line.starts_with("onstack: the profile ends after "));
    assert!((1.1e9..1.6e9).contains(&used) && (missing < 0.05) == line.is_none(), "{used} {missing}: {said}");
    let whole = record(&library, &output, &[burner.to_str().unwrap(), "return"]);
    assert!(!String::from_utf8(whole.stderr).unwrap().contains("ends after"));
}

#[test]
fn a_program_that_does_nothing_has_an_empty_profile_and_the_text_says_why() {
    let Some(library) = library() else { return };
    let output = place("nothing.pb.gz");
    let ended = record(&library, &output, &["true"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("no samples"), "{said}");
    assert_eq!(read(&output).summary().total, 0);
}

#[test]
fn a_program_that_blocks_the_signal_is_not_said_to_have_done_nothing() {
    let Some(library) = library() else { return };
    let output = place("blocks.pb.gz");
    let ended = record(&library, &output, &[burner().to_str().unwrap(), "blocks"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    let summary = read(&output).summary();
    assert_eq!(summary.total, 0, "{summary}");
    assert_ne!(summary.counters["blocked"], "0", "{summary}");
    assert!(said.contains("no samples") && said.contains("block"), "{said}");
    assert!(!said.contains("less CPU time"), "{said}");
}

#[test]
fn an_alternate_stack_that_is_gone_can_be_left_alone() {
    let Some(library) = library() else { return };
    let (output, program) = (place("unmaps.pb.gz"), burner());
    let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
    command.args(["record", "--no-alternate-stack", "-o"]).arg(&output).arg("--preload").arg(&library);
    let ended = command.arg("--").arg(&program).arg("unmaps").output().expect("the command");
    assert_eq!(ended.status.code(), Some(3), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(read(&output).summary().total > 0);
}

#[test]
fn children_are_left_out_and_undisturbed() {
    let Some(library) = library() else { return };
    let output = place("shell.pb.gz");
    let script = format!("{} thread; echo $?; {} exec; echo $?", burner().display(), burner().display());
    let ended = record(&library, &output, &["sh", "-c", &script]);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "3\n3\n", "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(read(&output).top().get("hot").is_none());
}

/// On a terminal a line changes while the program runs; `script` makes the terminal.
#[test]
fn a_terminal_sees_the_line_change() {
    let Some(library) = library() else { return };
    let output = place("terminal.pb.gz");
    let long = format!("{0}; {0}; {0}; {0}; {0}; {0}", burner().display());
    let command = format!(
        "{} record -o {} --preload {} -- sh -c '{long}'",
        env!("CARGO_BIN_EXE_onstack"),
        output.display(),
        library.display()
    );
    let Ok(ended) = Command::new("script").args(["-qec", &command, "/dev/null"]).output() else {
        eprintln!("SKIPPED: `script` (bsdutils) is not installed: the live line was NOT looked at");
        return;
    };
    let seen = String::from_utf8_lossy(&ended.stdout);
    assert!(seen.contains("\r\u{1b}[Konstack: "), "{seen:?}");
    assert!(seen.contains("ticks, "), "{seen:?}");
}

/// Keeps 1,000 blocks of 1,000 bytes of 2,000.
#[test]
fn a_heap_profile_says_what_is_in_use() {
    const SOURCE: &str = r#"
#include <stdlib.h>
void *volatile block;
__attribute__((noinline)) void keeps(void) { block = malloc(1000); }
__attribute__((noinline)) void gives_back(void) { block = malloc(1000); free(block); }
int main(void) {
  for (int i = 0; i < 1000; i++) { keeps(); gives_back(); }
  return 0;
}
"#;
    let Some(library) = library() else { return };
    let (source, program, profile) = (place("heap.c"), place("heap"), place("heap.pb.gz"));
    fs::write(&source, SOURCE).unwrap();
    assert!(Command::new("cc").args(["-O1", "-g", "-o"]).args([&program, &source]).status().unwrap().success());
    let onstack = || Command::new(env!("CARGO_BIN_EXE_onstack"));
    let record = onstack()
        .args(["record", "--heap=1", "-o"])
        .arg(&profile)
        .env("ONSTACK_PRELOAD", library)
        .arg("--")
        .arg(program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&record.stderr);
    assert!(record.status.success() && said.contains("allocations"), "{said}");
    read(&profile);
    let lines = |sample_type: &str| {
        let top = onstack().arg("report").arg(&profile).args(["--sample-type", sample_type]).output().unwrap();
        let both = [top.stdout, top.stderr].concat();
        String::from_utf8_lossy(&both).into_owned()
    };
    let cumulative = |text: &str, function: &str| {
        let line = text.lines().find(|line| line.ends_with(&format!("  {function}")))?;
        line.split_whitespace().nth(3).map(str::to_owned)
    };
    let (in_use, allocated) = (lines("inuse_objects"), lines("alloc_objects"));
    assert_eq!(cumulative(&in_use, "keeps").as_deref(), Some("1000"), "{in_use}");
    assert_eq!(cumulative(&in_use, "gives_back").as_deref().unwrap_or("0"), "0", "{in_use}");
    assert_eq!(cumulative(&allocated, "gives_back").as_deref(), Some("1000"), "{allocated}");
    assert!(lines("cpu").contains("it has no cpu; it has alloc_objects, alloc_space, inuse_objects, inuse_space"));
    let table = onstack().arg("memory").arg(&profile).output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let of = |part: &str| -> f64 {
        let line = table.lines().find(|line| line.ends_with(&format!("  {part}")));
        let share = line.unwrap_or_else(|| panic!("no {part} in\n{table}")).split_whitespace().nth(1).unwrap();
        share.trim_end_matches('%').parse().unwrap()
    };
    assert!(
        of("resident") == 100.0 && of("native, in use, in the profile") > 1.0 && of("unexplained") < 10.0,
        "{table}"
    );
}

#[test]
fn a_heap_profile_without_samples_says_so() {
    let Some(library) = library() else { return };
    let record = Command::new(env!("CARGO_BIN_EXE_onstack"))
        .args(["record", "--heap", "-o"])
        .arg(place("heap-empty.pb.gz"))
        .env("ONSTACK_PRELOAD", library)
        .args(["--", "/bin/true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&record.stderr);
    assert!(record.status.success() && said.contains("no samples: ") && said.contains("--heap=BYTES"), "{said}");
}

/// Whoever gave an option is told of that option.
#[test]
fn a_heap_profile_behind_another_malloc_is_said_to_be_none() {
    const SOURCE: &str = r#"
#include <stddef.h>
#include <string.h>
static _Alignas(16) char all[1 << 24];
static size_t used;
void *malloc(size_t size) { return all + (used += (size + 15) & ~15ul) - ((size + 15) & ~15ul); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *old, size_t size) { char *new = malloc(size); return old ? memmove(new, old, size) : new; }
void free(void *block) { (void)block; }
int main(void) { return 0; }
"#;
    let Some(library) = library() else { return };
    let (source, program, output) = (place("other-malloc.c"), place("other-malloc"), place("other-malloc.pb.gz"));
    fs::write(&source, SOURCE).unwrap();
    assert!(Command::new("cc").args(["-O1", "-o"]).args([&program, &source]).status().unwrap().success());
    for how in [&["--heap"][..], &["--heap", "--children=merge"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
        command.arg("record").args(how).arg("-o").arg(&output).arg("--preload").arg(&library).arg("--").arg(&program);
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("malloc is that of ") && said.contains("left no profile"), "{said}");
        assert!(said.lines().last().unwrap().contains("--heap"), "{said}");
    }
}

/// As jemalloc and mimalloc are the global allocators of Rust programs.
#[test]
fn an_allocator_that_is_not_seen_is_named_by_every_command() {
    const SOURCE: &str = r#"
#include <stdlib.h>
#include <string.h>
static char all[1 << 20];
__attribute__((visibility("hidden"), noinline)) void *_rjem_malloc(size_t size) {
  static size_t used;
  return all + (used += size) - size;
}
int main(void) {
  for (int i = 0; i < 100; i++) memset(_rjem_malloc(1000), i, 1000);
  return *(volatile char *)memset(malloc(1000), 0, 1000);
}
"#;
    let Some(library) = library() else { return };
    let (source, program, page) = (place("rjem.c"), place("rjem"), place("rjem.html"));
    let profile = place("rjem.pb.gz");
    fs::write(&source, SOURCE).unwrap();
    assert!(Command::new("cc").args(["-O1", "-o"]).args([&program, &source]).status().unwrap().success());
    let onstack = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
        let output = command.args(words).env("ONSTACK_PRELOAD", &library).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    };
    let [program, profile, page] = [&program, &profile, &page].map(|path| path.to_str().unwrap());
    let part = format!("lacks the memory of _rjem_malloc in {program}, ");
    let record = ["record", "--heap=1", "-o", profile];
    for words in [
        &[&record[..], &["--children=merge", "--", program]].concat()[..],
        &[&record[..], &["--", program]].concat(),
        &["report", profile],
        &["report", "--tree", profile],
        &["report", profile],
        &["stat", profile],
        &["memory", profile],
        &["view", "-o", page, profile],
    ] {
        let said = onstack(words);
        assert_eq!(said.matches(&part).count(), 1, "{words:?}: {said}");
    }
    assert!(fs::read_to_string(page).unwrap().contains(&part));
}

/// What a command writes to a terminal of so many rows and a hundred columns.
fn on_terminal(rows: u16, command: &mut Command) -> String {
    use std::io::Read;
    use std::os::fd::{FromRawFd, OwnedFd};
    let size = libc::winsize { ws_row: rows, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: both places are filled in, and nothing but the size is given.
    let made = unsafe { libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(made, 0);
    // SAFETY: the call made both, and nobody else has them.
    let (mut ours, theirs) = unsafe { (fs::File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut child = command.stdout(theirs.try_clone().unwrap()).stderr(theirs).spawn().unwrap();
    // The command holds the terminal as well.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    // The end of a terminal is an error.
    while let Ok(count @ 1..) = ours.read(&mut piece) {
        text.extend_from_slice(&piece[..count]);
    }
    assert!(child.wait().unwrap().code() == Some(3), "{}", String::from_utf8_lossy(&text));
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn functions_are_shown_while_the_program_runs() {
    let Some(library) = library() else { return };
    let (burner, output) = (burner(), place("top.pb.gz"));
    let mut run = Command::new(env!("CARGO_BIN_EXE_onstack"));
    run.args(["record", "--top", "-F", "199", "-o"]).arg(&output).arg("--preload").arg(&library).arg("--");
    let text = on_terminal(30, run.arg(&burner).arg("long"));
    let (during, end) = text.split_once("\x1b[r").expect("the rows are given back");
    assert!(during.contains("\x1b[1;18r") && during.contains("\x1b[19;1H"), "{text:?}");
    assert!(during.contains("%  hot"), "{text:?}");
    // Too small a terminal has the line of counters alone.
    let mut small = Command::new(env!("CARGO_BIN_EXE_onstack"));
    small.args(["record", "--top", "-F", "199", "-o"]).arg(&output).arg("--preload").arg(&library).arg("--");
    let text = on_terminal(10, small.arg(&burner).arg("long"));
    assert!(!text.contains("\x1b[1;") && text.contains("\r\x1b[Konstack: ") && text.contains("%  hot"), "{text:?}");
    assert!(end.contains("; wrote ") && end.contains("%  hot"), "{text:?}");
}

/// Two threads that want one lock, of which one sleeps with it.
#[test]
fn what_threads_wait_for_is_a_table() {
    let Some(library) = library() else { return };
    let source = r#"
#include <pthread.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *from) {
  const struct timespec some = {0, 50000000};
  for (int i = 0; i < 10; i++) {
    pthread_mutex_lock(&lock);
    nanosleep(&some, 0);
    pthread_mutex_unlock(&lock);
  }
  return from;
}
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return 0;
}
"#;
    let (code, program, output) = (place("waiter.c"), place("waiter"), place("waiter.pb.gz"));
    fs::write(&code, source).unwrap();
    assert!(Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(&code)
        .status()
        .unwrap()
        .success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
    command.args(["record", "--clock", "wall", "-F", "50", "-o"]).arg(&output).arg("--preload").arg(&library).arg("--");
    let ended = command.arg(&program).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let mut profile = read(&output);
    let holder = profile.by_label("holder");
    assert!(
        holder.values.iter().any(|(who, _)| who.as_ref().is_some_and(|who| who.starts_with("waiter/"))),
        "{holder}"
    );
    let table = Command::new(env!("CARGO_BIN_EXE_onstack")).args(["report", "--waits"]).arg(&output).output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("blocked  clock_nanosleep\n") && table.contains("blocked  futex  0x"), "{table}");
    // The one that has the lock sleeps with it.
    let (_, holders) = table.split_once("Where the holders were, in the whole profile\n").expect("who held the lock");
    assert!(holders.contains("100.00%  waiter/") && holders.contains("clock_nanosleep < "), "{holders}");
    profile.retain_label("holder", |who| who.is_some());
    let locked = profile.top();
    assert!(locked.share(locked.get("work").map_or(0, |entry| entry.cum)) > 0.9, "{locked}");
}
