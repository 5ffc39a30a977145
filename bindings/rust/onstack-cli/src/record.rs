// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program with the profiler preloaded into it.

use std::ffi::{c_int, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clap::Args;
use onstack::{Profile, Summary};

use crate::failure::Failure;
use crate::live::{Live, Status};
use crate::{output, preload, program};

/// The program's own code is passed on (128 and its number when a signal ended it); 127: no such program; 126: it cannot
/// be profiled like this; 1: there is no profile.
#[derive(Args)]
#[command(after_help = "The program's own exit code is passed on (128 + N when signal N ended it). \
127: no such program; 126: it cannot be profiled like this; 1: there is no profile; 2: wrong arguments")]
pub struct Arguments {
    /// Ticks a second of the clock, 1 to 10000
    #[arg(short = 'F', long, value_name = "HERTZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: u32,
    /// Where the profile goes, in pprof's format
    #[arg(short, long, value_name = "FILE", default_value = "profile.pb.gz")]
    output: PathBuf,
    /// What a tick is of: cpu, the CPU time of each thread, or wall, real time, of threads that wait too
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = ["cpu", "wall"])]
    clock: String,
    /// How stacks are found: rules, frame_pointer or pc_only
    #[arg(long, value_name = "NAME", value_parser = ["rules", "frame_pointer", "pc_only"])]
    unwinder: Option<String>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// The library that is preloaded, where it is not the installed one
    #[arg(long, value_name = "FILE", env = "ONSTACK_PRELOAD")]
    preload: Option<PathBuf>,
    /// The program and its arguments, after `--`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Where the preload puts what it has, until it is looked at.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let path = program::find(&arguments.program[0])?;
    program::check(&path)?;
    let library = preload::find(arguments.preload.as_deref())?;
    let preloaded = preload::variable(&library)?;
    let scratch = Scratch(output::scratch(&arguments.output)?);
    let (raw, status) = (scratch.0.join("profile"), scratch.0.join("status"));

    let mut command = Command::new(&path);
    command.args(&arguments.program[1..]).env("LD_PRELOAD", preloaded).env("ONSTACK_PROFILE", &raw);
    command.env("ONSTACK_FREQUENCY", arguments.frequency.to_string()).env("ONSTACK_STATUS", &status);
    // One file has room for one process; what its children would write is left out.
    command.env("ONSTACK_FORK", "stop").env("ONSTACK_CLOCK", &arguments.clock);
    match &arguments.unwinder {
        Some(name) => command.env("ONSTACK_UNWINDER", name),
        None => command.env_remove("ONSTACK_UNWINDER"),
    };
    // A person's interrupt is for the program; this one stays to take the profile.
    stand_back();
    let started = Instant::now();
    let child = command.spawn().map_err(|error| Failure::of_program(&path, 126, format!("cannot be run: {error}")))?;
    let live = Live::new(status, arguments.quiet);
    let ended =
        wait(child, &live, started).map_err(|error| Failure::new(&path, format!("cannot be awaited: {error}")))?;
    let status = live.end();
    finish(arguments, &path, &raw, &status, started.elapsed(), ended)?;
    Ok(code(ended))
}

fn wait(mut child: Child, live: &Live, started: Instant) -> io::Result<ExitStatus> {
    CHILD.store(child.id() as i32, Ordering::Relaxed);
    let mut shown = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            CHILD.store(0, Ordering::Relaxed);
            return Ok(status);
        }
        if shown.elapsed() >= Duration::from_secs(1) {
            live.show(started.elapsed());
            shown = Instant::now();
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn finish(
    arguments: &Arguments,
    program: &Path,
    raw: &Path,
    status: &Status,
    elapsed: Duration,
    ended: ExitStatus,
) -> Result<(), Failure> {
    let file = fs::File::open(raw).map_err(|_| {
        let how = match ended.signal() {
            Some(number) => format!("signal {number} ended it before the profile was written"),
            None => "it wrote none; what it said above may tell why".into(),
        };
        Failure::new(program, format!("left no profile: {how}"))
    })?;
    let mut profile = Profile::read(file).map_err(|error| Failure::new(raw, error))?;
    if status.is_known() && profile.summary().counters.is_empty() {
        status.comments().iter().for_each(|comment| profile.add_comment(comment));
    }
    // The preloaded library reads symbol tables only: the rest is done here, when nobody waits for the program any more.
    profile.symbolize();
    let mut bytes = Vec::new();
    profile.write_pprof(&mut bytes).map_err(|error| Failure::new(&arguments.output, error))?;
    output::write(Some(&arguments.output), &bytes)?;
    if !arguments.quiet {
        eprintln!("onstack: {}; wrote {}", status.line(elapsed), output::name(&arguments.output));
        advise(&profile.summary());
    }
    Ok(())
}

/// What a person should know at once about the profile: that it is empty, or which library cut many of its stacks.
fn advise(summary: &Summary) {
    if summary.total == 0 {
        eprintln!(
            "onstack: no samples: the program used less CPU time than lies between two ticks, or left it to children, \
             which are not recorded"
        );
    }
    let samples = summary.counters.get("samples").and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    // A few cut stacks change no picture.
    for module in summary.losses.iter().filter(|module| module.lost * 50 >= samples.max(1)) {
        eprintln!("onstack: {} of {samples} stacks were cut in {module}", module.lost);
    }
}

fn code(ended: ExitStatus) -> ExitCode {
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// The program that runs; 0: none.
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: c_int) {
    let child = CHILD.load(Ordering::Relaxed);
    if child > 0 {
        // SAFETY: sends a signal to the child, which has not been awaited yet; allowed in a signal handler.
        unsafe { libc::kill(child, signal) };
    }
}

extern "C" fn nothing(_: c_int) {}

/// Handlers and not SIG_IGN: the program would inherit that.
fn stand_back() {
    // A terminal sends the first two to the program as well.
    let both: [(c_int, extern "C" fn(c_int)); 4] =
        [(libc::SIGINT, nothing), (libc::SIGQUIT, nothing), (libc::SIGTERM, pass_on), (libc::SIGHUP, pass_on)];
    for (signal, handler) in both {
        // SAFETY: both handlers do nothing but what is allowed in one.
        unsafe { libc::signal(signal, handler as usize) };
    }
}
