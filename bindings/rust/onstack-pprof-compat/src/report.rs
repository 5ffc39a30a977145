// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report: the samples of a guard up to one moment, as values that a program can look at and change.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::io::Write;
use std::time::SystemTime;

use onstack::{Error, Result};
use onstack_profile::{Profile, Top};

use crate::frames::{Frames, ReportTiming, UnresolvedFrames};
use crate::guard::ProfilerGuard;
use crate::resolve::{self, Context};

type PostProcessor = Box<dyn Fn(&mut Frames)>;

/// Makes a [`Report`]; from [`ProfilerGuard::report`].
pub struct ReportBuilder<'a> {
    guard: &'a ProfilerGuard<'a>,
    post_processor: Option<PostProcessor>,
}

impl ProfilerGuard<'_> {
    /// What has been sampled so far, as a report in the making; profiling goes on.
    pub fn report(&self) -> ReportBuilder<'_> {
        ReportBuilder { guard: self, post_processor: None }
    }
}

impl ReportBuilder<'_> {
    /// Changes each stack before it goes into the report: to give pools of threads one name, or to cut frames. Stacks
    /// that are equal afterwards become one. One without frames keeps its ticks, and profiles name it `[no frames]`.
    pub fn frames_post_processor<T>(&mut self, frames_post_processor: T) -> &mut Self
    where
        T: Fn(&mut Frames) + 'static,
    {
        self.post_processor = Some(Box::new(frames_post_processor));
        self
    }

    /// Copies the samples and looks their names up. This can take a while and some memory in a large program; sampling
    /// goes on meanwhile, and what was read of debug information is freed at the end.
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn build(&self) -> Result<Report> {
        self.of_ticks()?;
        Ok(self.resolved(self.guard.profile()?))
    }

    /// As [`ReportBuilder::build`], and sampling goes on with an empty report. Every sample is in exactly one of the
    /// reports that are made like this.
    ///
    /// # Errors
    /// Only where memory runs out; the samples are lost then.
    pub fn build_and_clear(&self) -> Result<Report> {
        self.of_ticks()?; // before what is taken is lost
        Ok(self.resolved(self.guard.take_profile()?))
    }

    /// The samples as addresses, for a server that looks names up later.
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn build_unresolved(&self) -> Result<UnresolvedReport> {
        self.of_ticks()?;
        let profile = self.guard.profile_without_names()?;
        let timing = timing(&profile);
        let data = resolve::unresolved(profile.message(), timing.start_time);
        Ok(UnresolvedReport { data, timing, profile })
    }

    /// A report has one number a stack; a heap profile has four.
    fn of_ticks(&self) -> Result<()> {
        if self.guard.stats()?.clock == "heap" {
            return Err(Error::Kinds);
        }
        Ok(())
    }

    fn resolved(&self, profile: Profile) -> Report {
        let timing = timing(&profile);
        let mut details = HashMap::new();
        let message = profile.into_message();
        let data = resolve::stacks(&message, timing.start_time, self.post_processor.as_deref(), &mut details);
        Report { data, timing, context: resolve::context(message, details) }
    }
}

fn timing(profile: &Profile) -> ReportTiming {
    // A nanosecond is lost where the period is no whole number of them.
    let period = profile.message().period.max(1);
    let frequency = c_int::try_from((1_000_000_000 + period / 2) / period).unwrap_or(1);
    ReportTiming {
        frequency,
        start_time: profile.start().unwrap_or(SystemTime::UNIX_EPOCH),
        duration: profile.duration(),
    }
}

impl fmt::Debug for ReportBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportBuilder").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// Stacks with names and how often each was met. Independent of the guard that it came from.
///
/// What is written or drawn comes out of [`Report::data`], so a program can change it before.
#[derive(Clone)]
pub struct Report {
    /// Ticks by stack. Stacks of the same functions are one, with the places of the one that was met most. Profiles of the report
    /// have all their lines, unless a program has changed the stack or its ticks.
    pub data: HashMap<Frames, isize>,
    /// When they were taken.
    pub timing: ReportTiming,
    pub(crate) context: Context,
}

impl Report {
    /// A report of a program's own making, in the place of a literal of pprof-rs.
    pub fn new(data: HashMap<Frames, isize>, timing: ReportTiming) -> Self {
        let context = resolve::context_of(&timing);
        Self { data, timing, context }
    }

    /// The report in pprof's format, with mappings, build ids, and labels.
    pub fn profile(&self) -> Profile {
        resolve::profile(&self.data, &self.timing, &self.context)
    }

    /// The profile as a message of the codec that was chosen by a feature.
    ///
    /// # Errors
    /// None so far.
    #[cfg(any(feature = "prost-codec", feature = "protobuf-codec"))]
    pub fn pprof(&self) -> Result<crate::protos::Profile> {
        crate::protos::from_bytes(&self.profile().to_bytes())
    }

    /// Writes the profile in pprof's format, compressed by gzip, for a file `*.pb.gz`.
    ///
    /// # Errors
    /// [`Error::Output`](onstack::Error::Output) when `writer` fails.
    pub fn write_pprof<W: Write>(&self, writer: W) -> Result<()> {
        self.profile().write_pprof(writer)
    }

    /// Writes the report for OpenTelemetry, as [`Profile::write_otlp`] does.
    ///
    /// # Errors
    /// As those of [`Profile::write_otlp`].
    pub fn write_otlp<W: Write>(&self, writer: W, resource: &[(&str, &str)]) -> Result<()> {
        self.profile().write_otlp(writer, resource)
    }

    /// Writes folded stacks: `thread;main;f;g 12`, root first, the number in ticks, sorted.
    ///
    /// # Errors
    /// [`Error::Output`](onstack::Error::Output) when `writer` fails.
    pub fn folded<W: Write>(&self, writer: W) -> Result<()> {
        self.profile().folded(writer)
    }

    /// The functions and what each spent, the most expensive first.
    pub fn top(&self) -> Top {
        self.profile().top()
    }

    /// Draws a flame graph as SVG.
    ///
    /// # Errors
    /// [`Error::Empty`](onstack::Error::Empty) without samples, [`Error::Output`](onstack::Error::Output) when `writer`
    /// fails.
    #[cfg(feature = "flamegraph")]
    pub fn flamegraph<W: Write>(&self, writer: W) -> Result<()> {
        self.profile().flamegraph(writer)
    }

    /// Draws a flame graph as SVG, as `options` say.
    ///
    /// # Errors
    /// As those of [`Report::flamegraph`].
    #[cfg(feature = "flamegraph")]
    pub fn flamegraph_with_options<W: Write>(
        &self,
        writer: W,
        options: &mut crate::flamegraph::Options<'_>,
    ) -> Result<()> {
        self.profile().flamegraph_with_options(writer, options)
    }
}

/// A line for each stack: the thread, root to leaf, and the ticks.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.iter().try_for_each(|(frames, ticks)| writeln!(f, "{frames:?} {ticks}"))
    }
}

/// Stacks as addresses and how often each was met.
#[derive(Clone)]
pub struct UnresolvedReport {
    /// Ticks by stack. What is written comes from the profile itself: changes here do not reach it.
    pub data: HashMap<UnresolvedFrames, isize>,
    /// When they were taken.
    pub timing: ReportTiming,
    profile: Profile,
}

impl UnresolvedReport {
    /// Addresses with mappings and build ids: what a server needs to look names up.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Writes the profile in pprof's format, compressed by gzip.
    ///
    /// # Errors
    /// [`Error::Output`](onstack::Error::Output) when `writer` fails.
    pub fn write_pprof<W: Write>(&self, writer: W) -> Result<()> {
        self.profile.write_pprof(writer)
    }
}

impl fmt::Debug for UnresolvedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnresolvedReport").field("stacks", &self.data.len()).finish_non_exhaustive()
    }
}
