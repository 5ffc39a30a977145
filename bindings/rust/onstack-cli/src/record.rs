// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program with the profiler preloaded into it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, io, mem, thread};

use clap::Args;
use onstack_profile::{Profile, Summary, UnseenAllocator};

use crate::failure::Failure;
use crate::format::{Format, Resource};
use crate::live::{panel, Live};
use crate::status::Status;
use crate::{children, output, preload, program, signals};

/// The program's own code is passed on (128 and its number when a signal ended it); 127: no such program; 126: it cannot
/// be profiled like this; 1: there is no profile.
#[derive(Args)]
#[command(after_help = "The program's own exit code is passed on (128 + N when signal N ended it). \
127: no such program; 126: it cannot be profiled like this; 1: there is no profile; 2: wrong arguments. \
A signal that is sent to this command goes on to the program, which gets one to the whole group, as of `timeout`, twice")]
pub struct Arguments {
    /// Ticks a second of the clock, 1 to 10000 [default: 99; of the clock wall 20]
    #[arg(short = 'F', long, value_name = "HERTZ", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: Option<u32>,
    /// Where the profile goes, profile.pb.gz (in other formats with their ending) unless given; %p in it becomes the
    /// program's process id, %% a percent sign. For a profile of each process profile.%p.pb.gz
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What is written there
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Format::Pprof)]
    format: Format,
    #[command(flatten)]
    resource: Resource,
    /// Record what the program starts, too, until it ends: a profile for each process, with %p in the output's name, or
    /// merged, with the labels process and process_id (`onstack report --by process`)
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "each")]
    children: Option<children::How>,
    /// What a tick is of: cpu, the CPU time of each thread; wall, real time, of threads that wait too, which nothing interrupts;
    /// wall-signal, the same by signals, which end waiting system calls
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = ["cpu", "wall", "wall-signal"])]
    clock: String,
    /// A heap profile instead: where memory was allocated, and what is in use at the end. One allocation in BYTES bytes is
    /// sampled, 524288 unless given; 1 counts each
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "524288",
        conflicts_with_all = ["clock", "frequency"], value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    heap: Option<u32>,
    /// With --heap: only what has been in use for so many seconds counts as in use, to find what is never given back
    #[arg(long, value_name = "SECONDS", requires = "heap", value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    older: Option<u32>,
    /// How stacks are found: rules, frame_pointer or pc_only
    #[arg(long, value_name = "NAME", value_parser = ["rules", "frame_pointer", "pc_only"])]
    unwinder: Option<String>,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// Show the functions that spent most so far, in the last rows of the terminal, and at the end; for programs that write
    /// lines, or nothing
    #[arg(long, conflicts_with_all = ["quiet", "children"])]
    top: bool,
    /// Keep the time of each sample, for `onstack view`'s heat map and for the format firefox, which asks for it by
    /// itself. Some four bytes a sample
    #[arg(long, conflicts_with = "heap")]
    timeline: bool,
    /// Samples have labels trace_id and span_id: of the span that their thread is in, where an OpenTelemetry library of the
    /// program publishes it (OTEP 4947)
    #[arg(long)]
    spans: bool,
    /// Native frames alone: no functions of Python or PHP in the place of their interpreter's
    #[arg(long)]
    native: bool,
    /// Leave alternate signal stacks (sigaltstack) alone: the handler runs on the stack that it interrupts. For programs that
    /// free an alternate stack and go on; refused where a Go runtime is in the program
    #[arg(long)]
    no_alternate_stack: bool,
    /// The library that is preloaded, where it is not the installed one
    #[arg(long, value_name = "FILE", env = "ONSTACK_PRELOAD")]
    preload: Option<PathBuf>,
    /// The program and its arguments, after `--`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.format.check(&arguments.resource)?;
    if arguments.heap.is_some() && arguments.format.needs_times() {
        return Err(Failure::of_arguments("--heap: a heap profile has no times of samples, which this format draws"));
    }
    if arguments.timeline && matches!(arguments.format, Format::Otlp | Format::Folded) {
        return Err(Failure::of_arguments("--timeline: this format has no times: choose pprof or firefox"));
    }
    let path = program::find(&arguments.program[0])?;
    program::check(&path)?;
    let library = preload::find(arguments.preload.as_deref())?;
    let preloaded = preload::variable(&library)?;
    let output = children::output(arguments.output.as_deref(), arguments.children, arguments.format)?;
    let scratch = output::scratch(&output)?; // where the preload puts what it has, until it is looked at

    let mut command = Command::new(&path);
    command.args(&arguments.program[1..]).env("LD_PRELOAD", preloaded);
    let follows = arguments.children.is_some();
    // Each process has files of its own, or one file has room for one process: what children would write is left out.
    for (variable, name) in [("ONSTACK_PROFILE", children::PROFILE), ("ONSTACK_STATUS", children::STATUS)] {
        command.env(variable, output::pattern_of(&scratch.0.join(name), follows));
    }
    command.env("ONSTACK_FORK", if follows { "follow" } else { "stop" });
    source(arguments, &mut command);
    // Set for gperftools, it would make the preload wait for that signal.
    command.env_remove("CPUPROFILESIGNAL");
    match &arguments.unwinder {
        Some(name) => command.env("ONSTACK_UNWINDER", name),
        None => command.env_remove("ONSTACK_UNWINDER"),
    };
    // A person's interrupt is for the program; this one stays to take the profile.
    signals::stand_back(&mut command);
    let started = Instant::now();
    let child = command.spawn().map_err(|error| Failure::of_program(&path, 126, format!("cannot be run: {error}")))?;
    let process = child.id();
    let profile = arguments.top.then(|| scratch.0.join(children::PROFILE));
    let mut live = Live::new(scratch.0.join(children::STATUS), follows, arguments.quiet, profile);
    let (ended, used) =
        wait(&child, &mut live, started).map_err(|error| Failure::new(&path, format!("cannot be awaited: {error}")))?;
    let status = live.end();
    let recorded =
        Recorded { program: &path, scratch: &scratch.0, output: &output, status: &status, ended, used, process };
    match arguments.children {
        Some(how) => finish_all(&recorded, how, arguments, started)?,
        None => finish(&recorded, arguments, started)?,
    }
    Ok(code(ended))
}

/// What samples are of, in the preload's variables; what stands there for another program is taken away.
fn source(arguments: &Arguments, command: &mut Command) {
    for name in ["ONSTACK_HEAP", "ONSTACK_HEAP_RATE", "ONSTACK_HEAP_AGE", "ONSTACK_CLOCK", "CPUPROFILE_REALTIME"] {
        command.env_remove(name);
    }
    for name in ["ONSTACK_FREQUENCY", "CPUPROFILE_FREQUENCY"] {
        command.env_remove(name);
    }
    command.env("ONSTACK_TIMELINE", if arguments.timeline || arguments.format.needs_times() { "1" } else { "0" });
    command.env("ONSTACK_SPANS", if arguments.spans { "1" } else { "0" });
    command.env("ONSTACK_INTERPRETERS", if arguments.native { "0" } else { "1" });
    command.env("ONSTACK_ON_STACK", if arguments.no_alternate_stack { "0" } else { "1" });
    if let Some(frequency) = arguments.frequency {
        command.env("ONSTACK_FREQUENCY", frequency.to_string());
    }
    match arguments.heap {
        Some(bytes) => command.env("ONSTACK_HEAP", "1").env("ONSTACK_HEAP_RATE", bytes.to_string()),
        None => command.env("ONSTACK_CLOCK", &arguments.clock),
    };
    if let Some(seconds) = arguments.older {
        command.env("ONSTACK_HEAP_AGE", seconds.to_string());
    }
}

/// How the program ended, and the CPU time that it and the children used which it awaited.
fn wait(child: &Child, live: &mut Live, started: Instant) -> io::Result<(ExitStatus, Duration)> {
    signals::attend(child.id() as i32);
    let mut shown = Instant::now();
    loop {
        if let Some(ended) = try_wait(child)? {
            signals::forget();
            return Ok(ended);
        }
        if shown.elapsed() >= Duration::from_secs(1) {
            live.show(started.elapsed());
            shown = Instant::now();
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn try_wait(child: &Child) -> io::Result<Option<(ExitStatus, Duration)>> {
    let (mut status, mut usage) = (0, mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: two places that live during the call; all zeroes are a usage.
    let (awaited, usage) = unsafe {
        let awaited = libc::wait4(child.id() as i32, &mut status, libc::WNOHANG, usage.as_mut_ptr());
        (awaited, usage.assume_init())
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    match awaited {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some((ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime)))),
    }
}

/// What the program has left.
struct Recorded<'a> {
    program: &'a Path,
    scratch: &'a Path,
    output: &'a Path,
    status: &'a Status,
    ended: ExitStatus,
    used: Duration,
    process: u32,
}

impl Recorded<'_> {
    fn used(&self) -> String {
        format!("{USED}{}", self.used.as_nanos())
    }

    fn none(&self, arguments: &Arguments) -> Failure {
        let how = match self.ended.signal() {
            Some(number) => format!("signal {number} ended it before the profile was written"),
            // The library knows its variables and not who has set them.
            None if arguments.heap.is_some() => {
                "it wrote none; what it said above may tell why: ONSTACK_HEAP is what --heap has set".into()
            }
            None => "it wrote none; what it said above may tell why".into(),
        };
        Failure::new(self.program, format!("left no profile: {how}"))
    }
}

fn finish(recorded: &Recorded<'_>, arguments: &Arguments, started: Instant) -> Result<(), Failure> {
    let Recorded { scratch, status, .. } = recorded;
    let output = &output::of_process(recorded.output, recorded.process);
    let raw = &scratch.join(children::PROFILE);
    let elapsed = started.elapsed();
    let file = fs::File::open(raw).map_err(|_| recorded.none(arguments))?;
    let mut profile = Profile::read(file).map_err(|error| Failure::new(raw, error))?;
    if status.is_known() && !profile.summary().counters.contains_key("ticks") {
        status.comments().iter().for_each(|comment| profile.add_comment(comment));
    }
    profile.add_comment(&recorded.used());
    // The preloaded library reads symbol tables only: the rest is done here, when nobody waits for the program any more.
    profile.symbolize();
    write(&profile, arguments, output)?;
    if !arguments.quiet {
        eprintln!("onstack: {}; wrote {}", status.line(elapsed), output::name(output));
        let summary = profile.summary();
        advise(&summary, status.is_of_heap() || arguments.heap.is_some());
        tell_of_the_end(&summary, recorded.used);
        if arguments.top {
            panel::tell(&profile);
        }
    }
    Ok(())
}

/// Where it cannot take its form it is not lost: it is written beside as it is, and the failure names it.
fn write(profile: &Profile, arguments: &Arguments, output: &Path) -> Result<(), Failure> {
    let failure = match arguments.format.bytes(profile, &arguments.resource, output) {
        Ok(bytes) => return output::write(Some(output), &bytes),
        Err(failure) => failure,
    };
    let mut beside = if output == Path::new("-") { "profile".into() } else { output.as_os_str().to_owned() };
    beside.push(".pb.gz");
    let beside = PathBuf::from(beside);
    let mut bytes = Vec::new();
    profile.write_pprof(&mut bytes).map_err(|error| Failure::new(&beside, error))?;
    output::write(Some(&beside), &bytes)?;
    Err(failure.and(format!("what was recorded is in {}", output::name(&beside))))
}

/// Of all processes, the program first.
fn finish_all(
    recorded: &Recorded<'_>,
    how: children::How,
    arguments: &Arguments,
    started: Instant,
) -> Result<(), Failure> {
    let Recorded { scratch, status, output, .. } = recorded;
    let elapsed = started.elapsed();
    let sampled = Cell::new(Duration::ZERO);
    let unseen = RefCell::new(BTreeSet::new());
    let written = children::write(scratch, recorded.process, output, how, &|mut profile, file| {
        if how == children::How::Merge {
            profile.add_comment(&recorded.used());
        }
        sampled.set(sampled.get() + cpu_time(&profile));
        unseen.borrow_mut().extend(profile.summary().unseen);
        write(&profile, arguments, file)
    })?;
    if !arguments.quiet {
        tell_of_all(&written, &status.line(elapsed));
        tell_unseen(&unseen.into_inner());
        if arguments.heap.is_none() && arguments.clock == "cpu" {
            tell_of_the_rest(sampled.get(), recorded.used);
        }
    }
    if written.processes == 0 {
        return Err(recorded.none(arguments));
    }
    Ok(())
}

fn tell_of_all(written: &children::Written, line: &str) {
    let (names, processes) = (&written.names, written.processes);
    if processes > 0 {
        eprintln!("onstack: {line}; wrote {names} ({processes} processes with samples)");
    }
    if written.running > 0 {
        eprintln!("onstack: {} processes go on; what they do from here on is not recorded", written.running);
    }
}

/// That the samples of a CPU profile stand for.
fn cpu_time(profile: &Profile) -> Duration {
    Duration::from_nanos(profile.top().total.try_into().unwrap_or(0))
}

/// A counter of the profile; 0 where it has none.
fn counted(summary: &Summary, name: &str) -> u64 {
    summary.counters.get(name).and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// What a person should know at once about the profile: that it is empty, or which library cut many of its stacks.
fn advise(summary: &Summary, heap: bool) {
    let count = |name| counted(summary, name);
    let lost = ["ticks", "blocked", "dropped_no_stack"].map(count).into_iter().max().unwrap_or(0);
    // What a heap profile shows is in use, which may be nothing.
    let empty = if heap { summary.stacks == 0 } else { summary.total == 0 };
    if empty && lost > 0 {
        // The preload has said why, where it is worth a line.
        let what = if heap { "allocations" } else { "ticks" };
        eprintln!("onstack: no samples: {lost} {what} could not be recorded; `onstack stat` shows the counters");
    } else if empty && heap {
        eprintln!(
            "onstack: no samples: the program allocated less by malloc than lies between two of them, or left it to children, \
             which --children records; --heap=BYTES takes more"
        );
    } else if empty {
        eprintln!(
            "onstack: no samples: the program used less CPU time than lies between two ticks, or left it to children, \
             which --children records"
        );
    }
    if let Some(line) = timeless(summary) {
        eprintln!("onstack: {line}");
    }
    tell_unseen(&summary.unseen);
    let samples = count("samples");
    // A few cut stacks change no picture.
    for module in summary.losses.iter().filter(|module| module.lost * 50 >= samples.max(1)) {
        eprintln!("onstack: {} of {samples} stacks were cut in {module}", module.lost);
    }
}

fn tell_unseen<'a>(allocators: impl IntoIterator<Item = &'a UnseenAllocator>) {
    allocators.into_iter().for_each(|allocator| eprintln!("onstack: {allocator}"));
}

/// Times are kept in memory, with a bound, until the program ends.
fn timeless(summary: &Summary) -> Option<String> {
    let lost = counted(summary, "timeline_lost");
    (lost > 0).then(|| {
        format!("{lost} samples have no time, for 64 MiB were full of times: take a lower rate, or a part of the run")
    })
}

/// A comment of the profile: the CPU time of the program and of the children that it awaited, by the kernel's account.
const USED: &str = "onstack.process cpu_ns=";

/// Of a program whose end the profiler did not see, the profile is the last one that was saved.
fn tell_of_the_end(summary: &Summary, used: Duration) {
    let count = |name| counted(summary, name);
    let known = Duration::from_nanos(count("cpu_ns"));
    if count("running") != 0 && !known.is_zero() && is_much_more(used, known) {
        let (known, all) = (known.as_secs_f64(), used.as_secs_f64());
        eprintln!(
            "onstack: the profile ends after {known:.2} of {all:.2} s of CPU time: the program ended without its exit handlers, \
             as Go's os.Exit does, or a signal ended it (children that it awaited are in the second number)"
        );
    }
}

/// Processes that end before their profiler begins leave nothing that could be counted: the kernel's account alone has them.
fn tell_of_the_rest(sampled: Duration, used: Duration) {
    if is_much_more(used, sampled) {
        let (sampled, all) = (sampled.as_secs_f64(), used.as_secs_f64());
        eprintln!(
            "onstack: samples stand for {sampled:.2} of {all:.2} s of CPU time: each process lacks what its loader used, and \
             its last milliseconds; static ones take no profiler"
        );
    }
}

/// Worth a line.
fn is_much_more(used: Duration, known: Duration) -> bool {
    let missing = used.saturating_sub(known);
    missing > Duration::from_millis(100) && missing > used / 20
}

fn code(ended: ExitStatus) -> ExitCode {
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_a_time_are_told() {
        let mut profile = Profile::from_folded("main 9\n").unwrap();
        assert_eq!(timeless(&profile.summary()), None);
        profile.add_comment("onstack.timeline kept=9 lost=0");
        assert_eq!(timeless(&profile.summary()), None);
        let mut profile = Profile::from_folded("main 9\n").unwrap();
        profile.add_comment("onstack.timeline kept=6 lost=3");
        assert!(timeless(&profile.summary()).is_some_and(|line| line.starts_with("3 samples have no time")));
    }
}
