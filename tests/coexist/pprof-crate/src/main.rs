// SPDX-License-Identifier: MIT OR Apache-2.0
//! Beside the `pprof` crate's profiler, in every order of start and stop. It installs its handler at each start, without
//! SA_ONSTACK, leaves SIG_IGN at each stop, whatever it found, and ticks by ITIMER_PROF. That one counts no overruns, so
//! on a busy machine it loses ticks without us; what must hold is one sample of its for each signal that we forward, from
//! edge to edge of each stretch of time in which both run.

use std::hint::black_box;
use std::process::ExitCode;

use onstack::{Options, Session};
use pprof::ProfilerGuard;

const HERTZ: i32 = 500;

/// CPU seconds of the only thread that burns.
fn cpu() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn burn(seconds: f64) {
    let end = cpu() + seconds;
    while cpu() < end {
        for i in 0..20_000 {
            black_box(i);
        }
    }
}

fn handler() -> usize {
    // SAFETY: all zeroes is a valid sigaction, which is only written.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPROF, std::ptr::null(), &mut action);
        action.sa_sigaction
    }
}

#[derive(Default)]
struct Seen {
    ticks: u64,
    looped: u64,
    ours_cpu: f64,
    /// Their samples while we run, and while we do not; what we forwarded while both run.
    beside: i64,
    alone: i64,
    forwarded: i64,
}

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn samples(theirs: Option<&ProfilerGuard>) -> Fallible<i64> {
    let Some(guard) = theirs else { return Ok(0) };
    Ok(guard.report().build_unresolved()?.data.values().map(|&n| n as i64).sum())
}

fn forwarded(session: Option<&Session>) -> Fallible<i64> {
    Ok(session.map(Session::stats).transpose()?.map_or(0, |stats| stats.forwarded as i64))
}

/// Some CPU time, in which whoever runs goes on.
fn window(seen: &mut Seen, session: Option<&Session>, theirs: Option<&ProfilerGuard>) -> Fallible<()> {
    let before = (samples(theirs)?, forwarded(session)?);
    burn(0.8);
    let (more, passed_on) = (samples(theirs)? - before.0, forwarded(session)? - before.1);
    match session {
        Some(_) => seen.beside += more,
        None => seen.alone += more,
    }
    if theirs.is_some() {
        seen.forwarded += passed_on;
    }
    Ok(())
}

fn run(steps: &str) -> Fallible<Seen> {
    let (mut seen, mut session, mut theirs, mut begin) = (Seen::default(), None, None, 0.0);
    for step in steps.split(' ') {
        match step {
            "O+" => {
                session = Some(Session::start(Options::new().frequency(HERTZ), |_| {})?);
                begin = cpu();
            }
            "O-" => {
                let running: Session = session.take().ok_or("stopped before it was started")?;
                seen.ours_cpu += cpu() - begin;
                running.stop()?;
                let stats = running.stats()?;
                (seen.ticks, seen.looped) = (stats.ticks, stats.looped);
            }
            "P+" => theirs = Some(ProfilerGuard::new(100)?),
            "P-" => {
                let _: ProfilerGuard = theirs.take().ok_or("stopped before it was started")?;
            }
            _ => window(&mut seen, session.as_ref(), theirs.as_ref())?,
        }
    }
    Ok(seen)
}

/// In the order a window "b" has theirs alone, or none has.
fn order(steps: &str, theirs_alone: bool) -> bool {
    let seen = match run(steps) {
        Ok(seen) => seen,
        Err(error) => {
            println!("not ok pprof crate {steps}: {error}");
            return false;
        }
    };
    let share = seen.ticks as f64 / f64::from(HERTZ) / seen.ours_cpu;
    let off = seen.beside - seen.forwarded;
    let left = handler();
    // Until a displacement is noticed signals reach the newer handler directly: a start of theirs over ours.
    let direct = if steps.starts_with("O+ b P+") { 40 } else { 2 };
    let good = (0.85..1.1).contains(&share)
        && (-2..=direct).contains(&off)
        && (!theirs_alone || seen.alone > 5)
        && seen.looped == 0
        && left == libc::SIG_IGN;
    println!(
        "{} pprof crate {steps}: ours {share:.3} of the CPU time; theirs {} samples alone, {} beside us, {} forwarded; handler left: {left:#x}",
        if good { "ok" } else { "not ok" },
        seen.alone,
        seen.beside,
        seen.forwarded
    );
    good
}

fn main() -> ExitCode {
    let orders = [
        ("P+ b P- O+ b O-", true),
        ("O+ b O- P+ b P-", true),
        ("P+ b O+ b P- b O-", true),
        ("P+ b O+ b O- b P-", true),
        ("O+ b P+ b P- b O-", false),
        ("O+ b P+ b O- b P-", true),
    ];
    let failed = orders.iter().filter(|(steps, theirs_alone)| !order(steps, *theirs_alone)).count();
    ExitCode::from(u8::from(failed > 0))
}
