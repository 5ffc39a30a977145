// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack record`: what it refuses, what it passes on, and a real profile where the preload is built.

mod inherited;
mod pprof;

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::ptr;

use onstack_profile::Profile;

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn record(preload: &Path, output: &Path, program: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onstack"))
        .args(["record", "-F", "199", "-o"])
        .arg(output)
        .arg("--preload")
        .arg(preload)
        .arg("--")
        .args(program)
        .output()
        .expect("the program runs")
}

fn message(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

/// Compiles C; the C compiler is needed for the crate anyway.
fn compile(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (code, result) = (place(&format!("{name}.c")), place(name));
    fs::write(&code, source).unwrap();
    let built = Command::new("cc").args(flags).arg("-o").arg(&result).arg(&code).status().expect("a C compiler");
    assert!(built.success());
    result
}

/// By another process: a program that some other thread's child still has open for writing does not start.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().expect("cp").success());
}

/// Does at exit what the preload does, with a profile that is known: its counterpart in this conversation.
fn stand_in() -> PathBuf {
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
/* Two percent signs are one. */
static FILE *place(const char *variable) {
  static char name[4096];
  const char *from = getenv(variable);
  char *to = name;
  if (from == NULL) return NULL;
  for (; *from; from++) {
    *to++ = *from;
    if (from[0] == '%' && from[1] == '%') from++;
  }
  *to = 0;
  return fopen(name, "w");
}
static void put(const char *variable, const char *text) {
  FILE *file = place(variable);
  if (file != NULL) { fputs(text, file); fclose(file); }
}
static void done(void) {
  static char text[256];
  /* A library's name need not be text. */
  snprintf(text, sizeof text, "onstack.stats recorded=%s dropped_ring_full=3\nonstack.module lost=1 path=/srv/\377.so\n",
           getenv("ONSTACK_FREQUENCY"));
  put("ONSTACK_STATUS", text);
  FILE *profile = place("ONSTACK_PROFILE");
  FILE *fixture = fopen(getenv("FIXTURE"), "r");
  int c;
  while (profile != NULL && fixture != NULL && (c = fgetc(fixture)) != EOF) fputc(c, profile);
  if (profile != NULL) fclose(profile);
}
__attribute__((constructor)) static void begin(void) { atexit(done); }
"#;
    static ONCE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    ONCE.get_or_init(|| {
        let mut bytes = Vec::new();
        Profile::from_folded("main;hot 6\n").unwrap().write_pprof(&mut bytes).unwrap();
        fs::write(place("fixture.pb.gz"), bytes).unwrap();
        // The program's environment is this one's.
        env::set_var("FIXTURE", place("fixture.pb.gz"));
        compile("stand-in.so", source, &["-shared", "-fPIC"])
    })
    .clone()
}

#[test]
fn the_profile_the_counters_and_the_exit_code_come_through() {
    // A directory of its own: those of the other tests have their working directories of this moment.
    let directory = place("recorded");
    fs::create_dir_all(&directory).unwrap();
    let output = directory.join("out.pb.gz");
    let _ = fs::remove_file(&output);
    let source = "#include <stdio.h>\nint main(int n, char **v) { puts(v[n - 1]); return 7; }";
    let program = compile("seven", source, &[]);
    let ended = record(&stand_in(), &output, &[program.to_str().unwrap(), "--frequency", "from the program"]);
    assert_eq!(ended.status.code(), Some(7), "{}", message(&ended));
    assert_eq!(ended.stdout, b"from the program\n");
    assert!(message(&ended).contains("199 ticks") && message(&ended).contains("3 dropped"), "{}", message(&ended));
    let bytes = fs::read(&output).unwrap();
    assert_eq!(pprof::check(&bytes).and_then(Result::err), None);
    let profile = Profile::read(&bytes[..]).unwrap();
    assert_eq!(profile.top().get("hot").unwrap().flat, 6);
    assert_eq!(profile.summary().counters["dropped_ring_full"], "3");
    assert!(profile.comments().any(|comment| comment == "onstack.module lost=1 path=/srv/\u{fffd}.so"));
    let left = fs::read_dir(&directory).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".onstack-")));
}

#[test]
fn a_program_that_a_signal_ends_leaves_no_profile_and_the_text_says_so() {
    let output = place("killed.pb.gz");
    let ended = record(&stand_in(), &output, &["sh", "-c", "kill -9 $$"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(message(&ended).contains("signal 9"), "{}", message(&ended));
    assert!(!output.exists());
}

#[test]
fn what_a_preload_cannot_reach_is_refused_before_it_runs() {
    let source = "int main(void) { return 0; }";
    let fixed = compile("static-program", source, &["-static"]);
    let setuid = compile("setuid-program", source, &[]);
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    let text = place("not-a-program");
    fs::write(&text, "words").unwrap();
    let script = place("script");
    fs::write(&script, format!("#! {}\n", fixed.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let cases = [
        (fixed.to_str().unwrap(), 126, "linked statically"),
        (script.to_str().unwrap(), 126, "linked statically"),
        (setuid.to_str().unwrap(), 126, "set-user-ID"),
        (text.to_str().unwrap(), 126, "is no program"),
        ("/nowhere/program", 127, "no such file"),
        ("no-such-program-anywhere", 127, "no such program in PATH"),
    ];
    for (program, code, why) in cases {
        let output = place("refused.pb.gz");
        let ended = record(&stand_in(), &output, &[program]);
        assert_eq!(ended.status.code(), Some(code), "{program}: {}", message(&ended));
        assert!(message(&ended).contains(why) && message(&ended).contains(program), "{}", message(&ended));
        assert!(!output.exists());
    }
}

#[test]
fn file_capabilities_are_refused_for_whom_they_matter() {
    let directory = env::temp_dir().join(format!("onstack-capabilities-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let (onstack, program) = (directory.join("onstack"), directory.join("capable"));
    copy(&compile("capable", "int main(void) { return 0; }", &[]), &program);
    copy(Path::new(env!("CARGO_BIN_EXE_onstack")), &onstack);
    let capable = Command::new("setcap").arg("cap_net_raw=ep").arg(&program).status();
    if !capable.is_ok_and(|status| status.success()) {
        eprintln!("skip: setcap gives no capabilities here (root and libcap2-bin are needed)");
        return fs::remove_dir_all(&directory).unwrap();
    }
    let ended = Command::new(&onstack)
        .args(["record", "--"])
        .arg(&program)
        .current_dir(&directory)
        .uid(65534)
        .gid(65534)
        .output();
    let by_root = record(&stand_in(), &place("capable.pb.gz"), &[program.to_str().unwrap()]);
    fs::remove_dir_all(&directory).unwrap();
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(126), "{}", message(&ended));
    assert!(message(&ended).contains("file capabilities") && message(&ended).contains("copy"), "{}", message(&ended));
    assert!(by_root.status.success(), "{}", message(&by_root));
}

#[test]
fn a_preload_that_is_not_there_and_an_output_that_cannot_be() {
    let ended = record(Path::new("/nowhere/preload.so"), &place("x.pb.gz"), &["true"]);
    assert!(ended.status.code() == Some(1) && message(&ended).contains("/nowhere/preload.so"), "{}", message(&ended));
    let ended = record(&stand_in(), Path::new("/nowhere/x.pb.gz"), &["true"]);
    assert!(ended.status.code() == Some(1) && message(&ended).contains("cannot write"), "{}", message(&ended));
}

#[test]
fn wrong_arguments_are_code_2() {
    let onstack = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_onstack")).args(arguments).output().unwrap();
    for arguments in [&["record"][..], &["record", "-F", "0", "--", "true"], &["record", "-F", "10001", "--", "true"]] {
        assert_eq!(onstack(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let help = onstack(&["record", "--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("126"));
}

fn onstack() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
    command.env_remove("ONSTACK_PRELOAD");
    command
}

/// The command and a library beside it, in directories of these modes.
fn unpacked(name: &str, mode: u32, library_mode: u32) -> (PathBuf, PathBuf) {
    let directory = env::temp_dir().join(format!("onstack-{name}-{}", std::process::id()));
    let (bin, lib) = (directory.join("bin"), directory.join("lib"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    copy(Path::new(env!("CARGO_BIN_EXE_onstack")), &bin.join("onstack"));
    copy(&stand_in(), &lib.join("libonstack-preload.so"));
    for (path, mode) in [(&lib, library_mode), (&directory, mode)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    (directory, bin.join("onstack"))
}

#[test]
fn a_library_that_others_may_have_put_there_is_not_loaded() {
    let installed =
        ["/usr/local/lib", "/usr/lib"].iter().any(|place| Path::new(place).join("libonstack-preload.so").exists());
    for (name, mode, library_mode, good) in
        [("ours", 0o755, 0o755, true), ("shared", 0o755, 0o1777, false), ("open", 0o777, 0o755, false)]
    {
        let (directory, program) = unpacked(name, mode, library_mode);
        let ended = Command::new(&program).args(["record", "--", "true"]).current_dir(&directory).output().unwrap();
        let written = directory.join("profile.pb.gz").exists();
        fs::remove_dir_all(&directory).unwrap();
        if installed {
            eprintln!("skip: an installed library comes first");
            continue;
        }
        assert_eq!(written, good, "{name}: {}", message(&ended));
        assert!(good || message(&ended).contains("others may write there"), "{name}: {}", message(&ended));
    }
}

#[test]
fn the_process_id_goes_into_the_name() {
    let directory = place("50%p").join("100%"); // directories are what they are called
    fs::create_dir_all(&directory).unwrap();
    let source = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d\", getpid()); return 0; }";
    let program = compile("process-id", source, &[]);
    let ended = record(&stand_in(), &directory.join("x.%p.%%.pb.gz"), &[program.to_str().unwrap()]);
    let process = String::from_utf8(ended.stdout.clone()).unwrap();
    let written = directory.join(format!("x.{}.%.pb.gz", process.trim()));
    assert!(written.exists(), "{}: {}", written.display(), message(&ended));
    assert!(message(&ended).contains(written.to_str().unwrap()), "{}", message(&ended));
    fs::remove_file(written).unwrap();
}

#[test]
fn what_was_ignored_stays_ignored() {
    let source = r#"
#include <signal.h>
#include <unistd.h>
int main(void) {
  int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};
  for (int i = 0; i < 4; i++) kill(getppid(), signals[i]), raise(signals[i]);
  return 5;
}"#;
    let script = "trap '' HUP INT TERM QUIT; exec \"$0\" record -o \"$1\" --preload \"$2\" -- \"$3\"";
    let ended = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_onstack")])
        .args([place("nohup.pb.gz"), stand_in(), compile("ignores", source, &[])])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(5), "{}", message(&ended));
}

/// As some supervisors leave it: children are not awaited then, unless their parent says otherwise.
#[test]
fn the_end_is_known_where_the_ends_of_children_are_ignored() {
    let source = r#"
#include <signal.h>
#include <stddef.h>
int main(void) {
  struct sigaction action;
  sigaction(SIGCHLD, NULL, &action);
  return action.sa_handler == SIG_IGN ? 7 : 8;
}"#;
    let program = compile("ignores-children", source, &[]);
    for (action, code) in [(libc::SIG_IGN, 7), (libc::SIG_DFL, 8)] {
        let mut command = onstack();
        command.args(["record", "-o"]).arg(place("sigchld.pb.gz")).arg("--preload").arg(stand_in());
        command.arg("--").arg(&program);
        let ended = inherited::under(&mut command, libc::SIGCHLD, action).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{}", message(&ended));
    }
}

/// A program under the command; it has begun, ends after the first SIGINT or SIGQUIT, and says their sum.
fn interruptible(name: &str, prepare: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Child {
    let source = r#"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile sig_atomic_t sum;
static void note(int signal) { sum += signal; }
int main(void) {
  signal(SIGINT, note);
  signal(SIGQUIT, note);
  puts("ready");
  fflush(stdout);
  for (int i = 0; i < 300 && !sum; i++) usleep(100000);
  usleep(200000);
  return sum;
}"#;
    let mut command = onstack();
    command.args(["record", "-q", "-o"]).arg(place(&format!("{name}.pb.gz"))).arg("--preload").arg(stand_in());
    command.arg("--").arg(compile(name, source, &[])).stdout(Stdio::piped());
    inherited::under(&mut command, libc::SIGINT, libc::SIG_DFL);
    inherited::under(&mut command, libc::SIGQUIT, libc::SIG_DFL);
    // SAFETY: what the tests below do is allowed between fork and exec.
    let mut child = unsafe { command.pre_exec(prepare) }.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    child
}

#[test]
fn a_process_that_interrupts_the_command_reaches_the_program() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        let mut child = interruptible("interrupted", || Ok(()));
        // SAFETY: a signal to a child that was not awaited.
        unsafe { libc::kill(child.id() as i32, signal) };
        assert_eq!(child.wait().unwrap().code(), Some(signal));
    }
}

/// It sends to the program as well.
#[test]
fn a_terminal_that_interrupts_reaches_the_program_once() {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: both places are filled in, and nothing else is given.
    let made = unsafe { libc::openpty(&mut ours, &mut theirs, ptr::null_mut(), ptr::null(), ptr::null()) };
    assert_eq!(made, 0);
    // SAFETY: the call made it, and nobody else has it.
    let mut ours = unsafe { File::from_raw_fd(ours) };
    let mut child = interruptible("interrupted-once", move || {
        // SAFETY: two calls of the kernel, with the descriptor from above.
        let is_ours = unsafe { libc::setsid() >= 0 && libc::ioctl(theirs, libc::TIOCSCTTY, 0) == 0 };
        is_ours.then_some(()).ok_or_else(io::Error::last_os_error)
    });
    ours.write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(libc::SIGINT));
}

#[test]
fn another_profilers_signal_does_not_wait() {
    // The stand-in does as the preload: with that variable it would begin when the signal comes.
    let source = "#include <stdlib.h>\nint main(void) { return getenv(\"CPUPROFILESIGNAL\") != NULL; }";
    let ended = onstack()
        .env("CPUPROFILESIGNAL", "12")
        .args(["record", "-o"])
        .arg(place("signal.pb.gz"))
        .arg("--preload")
        .arg(stand_in())
        .arg("--")
        .arg(compile("has-signal", source, &[]))
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", message(&ended));
}

/// At each instant of the start the signal ends this process, which has made none, or the program.
#[test]
fn a_signal_to_end_reaches_the_program_whenever_it_comes() {
    for instant in 0..80 {
        let mut child = onstack()
            .args(["record", "-q", "-o"])
            .arg(place("ended.pb.gz"))
            .arg("--preload")
            .arg(stand_in())
            .args(["--", "sleep", "5"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_micros(instant * 100));
        // SAFETY: a signal to a child that was not awaited.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let ended = child.wait().unwrap();
        assert_ne!(ended.code(), Some(0), "after {} us it was lost: the program went on to its end", instant * 100);
    }
}
