// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program starts is recorded too: each process leaves a file, and the files become one profile each, or one of all.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use onstack_profile::Merge;
use onstack_profile::Profile;

use crate::failure::Failure;
use crate::format::Format;
use crate::output;
use crate::status::{self, Status};

/// The files of a process in the scratch directory; with its id behind a dot where there are several.
pub const PROFILE: &str = "profile";
pub const STATUS: &str = "status";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// A profile for each process
    Each,
    /// One profile of all
    Merge,
}

/// The output's name, which tells processes apart where each has its own.
pub fn output(given: Option<&Path>, how: Option<How>, format: Format) -> Result<PathBuf, Failure> {
    let each = how == Some(How::Each);
    let Some(path) = given else {
        let name = format.file();
        return Ok(if each { name.replacen('.', ".%p.", 1) } else { name.to_owned() }.into());
    };
    if each && output::of_process(path, 1) == output::of_process(path, 2) {
        let what = "--children: each process needs a file of its own: put %p into --output, or give --children=merge";
        return Err(Failure::of_arguments(what));
    }
    Ok(path.to_owned())
}

pub struct Written {
    /// Of the outputs, for people.
    pub names: String,
    /// Those with samples.
    pub processes: usize,
    /// Those that have not ended.
    pub running: usize,
}

/// A file of a process, and its id.
type Left = (PathBuf, u32);

/// Writes a profile to that file.
type Write<'a> = dyn Fn(Profile, &Path) -> Result<(), Failure> + 'a;

/// So many profiles are in memory together, or files of so many bytes, so that what they name is read once for all of them.
const TOGETHER: (usize, u64) = (64, 16 << 20);

/// Turns what the processes have left into profiles, the program's first. A file that is no profile is named, and the others
/// are taken.
pub fn write(scratch: &Path, program: u32, output: &Path, how: How, write: &Write<'_>) -> Result<Written, Failure> {
    let mut left = status::files(&scratch.join(PROFILE));
    left.sort_by_key(|(_, process)| (*process != program, *process));
    let statuses = status::files(&scratch.join(STATUS));
    let running = statuses.iter().filter(|(_, process)| is_alive(*process)).count();
    let silent = without_samples(&statuses, &left);
    let names = output::name(output).into_owned();
    let mut written = Written { names, processes: 0, running };
    match how {
        How::Merge => {
            let merged = output::of_process(output, program);
            written.processes = write_merged(&left, &silent, &|profile| write(profile, &merged))?;
            if written.processes > 0 {
                written.names = output::name(&merged).into_owned();
            }
        }
        How::Each => {
            written.processes =
                write_each(&left, &|profile, process| write(profile, &output::of_process(output, process)))?
        }
    }
    Ok(written)
}

/// Returns the number of profiles.
fn write_merged(
    left: &[Left],
    silent: &[Status],
    write: &dyn Fn(Profile) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let mut merge = Merge::default();
    let mut processes = 0;
    for (file, process) in left {
        let added =
            read(file).and_then(|profile| merge.add(&profile, *process).map_err(|error| Failure::new(file, error)));
        processes += usize::from(told(*process, added).is_some());
    }
    silent.iter().flat_map(Status::comments).for_each(|comment| merge.add_comment(&comment));
    if let Some(mut profile) = merge.finish() {
        profile.symbolize();
        write(profile)?;
    }
    Ok(processes)
}

/// Returns the number of profiles. After one that cannot be written the others may be.
fn write_each(left: &[Left], write: &dyn Fn(Profile, u32) -> Result<(), Failure>) -> Result<usize, Failure> {
    let mut processes = 0;
    let mut failed = None;
    let mut rest = left;
    while !rest.is_empty() {
        let (these, others) = rest.split_at(together(rest));
        rest = others;
        let profiles = these.iter().filter_map(|(file, process)| Some((told(*process, read(file))?, *process)));
        let (mut profiles, ids): (Vec<_>, Vec<_>) = profiles.unzip();
        Profile::symbolize_all(&mut profiles);
        processes += profiles.len();
        for (profile, process) in profiles.into_iter().zip(ids) {
            failed = failed.or(write(profile, process).err());
        }
    }
    failed.map_or(Ok(processes), Err)
}

/// How many of the first, one at least.
fn together(left: &[Left]) -> usize {
    let (count, bytes) = TOGETHER;
    let mut sum = 0;
    let fits = |(file, _): &&Left| {
        sum += fs::metadata(file).map_or(0, |metadata| metadata.len());
        sum <= bytes
    };
    left.iter().take(count).take_while(fits).count().max(1)
}

/// Without the failure, which is told.
fn told<T>(process: u32, result: Result<T, Failure>) -> Option<T> {
    result.map_err(|failure| eprintln!("onstack: process {process}: {failure}")).ok()
}

/// The counters of processes that have left no profile because they have no sample. With samples that are nowhere, as of a
/// process that was killed, the sums would speak of more than the profile has.
fn without_samples(statuses: &[(PathBuf, u32)], profiles: &[(PathBuf, u32)]) -> Vec<Status> {
    let has_profile = |process: u32| profiles.iter().any(|(_, other)| *other == process);
    let others = statuses.iter().filter(|(_, process)| !has_profile(*process));
    others.map(|(file, _)| Status::read(file)).filter(|status| status.is_known() && !status.has_samples()).collect()
}

fn read(file: &Path) -> Result<Profile, Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::new(file, format!("cannot read: {error}")))?;
    Profile::read(&bytes[..]).map_err(|error| Failure::new(file, error))
}

fn is_alive(process: u32) -> bool {
    // SAFETY: signal 0 is none; asks whether there is such a process.
    i32::try_from(process).is_ok_and(|process| unsafe { libc::kill(process, 0) } == 0)
}
