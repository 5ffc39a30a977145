// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what a person points at: a pprof profile or folded stacks.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use onstack_profile::Profile;

use crate::failure::Failure;
use crate::filter::{Filter, Shape};

/// A profile to look at.
#[derive(Args)]
pub struct Shown {
    /// A pprof profile (compressed or not) or folded stacks; `-` is the standard input
    input: PathBuf,
    /// Which of the profile's values is shown, as inuse_space or alloc_objects of a heap profile
    #[arg(long, value_name = "NAME")]
    sample_type: Option<String>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    shape: Shape,
}

impl Shown {
    pub fn path(&self) -> &Path {
        &self.input
    }

    pub fn read(&self) -> Result<Profile, Failure> {
        self.read_other(&self.input)
    }

    /// Another one, shown in the same way.
    pub fn read_other(&self, path: &Path) -> Result<Profile, Failure> {
        let mut profile = read_type(path, self.sample_type.as_deref())?;
        self.filter.apply(&mut profile).map_err(|why| Failure::new(path, why))?;
        self.shape.apply(&mut profile).map_err(|why| Failure::new(path, why))?;
        Ok(profile)
    }
}

/// Reads a file, or the standard input for `-`.
pub fn read(path: &Path) -> Result<Profile, Failure> {
    let bytes = bytes(path, Profile::MAX_BYTES)?;
    let bytes = bytes.ok_or_else(|| Failure::new(path, onstack_profile::Error::TooLarge))?;
    parse(bytes).map_err(|what| Failure::new(path, what))
}

/// So that the named one of its values is shown; by default that which the profile itself names.
pub fn read_type(path: &Path, sample_type: Option<&str>) -> Result<Profile, Failure> {
    let mut profile = read(path)?;
    if let Some(name) = sample_type {
        profile.show(name).map_err(|error| match error {
            onstack_profile::Error::Input(why) => Failure::new(path, why),
            other => Failure::new(path, other),
        })?;
    }
    Ok(profile)
}

/// All bytes of a file or, for `-`, of the standard input; nothing where there are more than `limit`.
pub fn bytes(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
    let bytes = if path == Path::new("-") {
        first(io::stdin().lock(), limit)
    } else {
        File::open(path).and_then(|file| first(file, limit))
    };
    bytes.map_err(|error| Failure::new(path, format!("cannot read: {error}")))
}

/// All bytes; nothing where there are more than `limit`.
pub fn first(reader: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let count = reader.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((count as u64 <= limit).then_some(bytes))
}

fn parse(bytes: Vec<u8>) -> Result<Profile, String> {
    if bytes.is_empty() {
        return Err("is empty; the profiler that writes it may still be running".into());
    }
    let bytes = match String::from_utf8(bytes) {
        // pprof begins with a message whose tag is a line end, so look for what only pprof has.
        Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) => {
            return Profile::from_folded(&text).map_err(|error| match error {
                onstack_profile::Error::Input(why) => why,
                other => other.to_string(),
            });
        }
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    Profile::read(&bytes[..]).map_err(|error| match error {
        onstack_profile::Error::TooLarge => error.to_string(),
        _ => format!("{error}; give a pprof profile (*.pb.gz) or folded stacks (`main;f 12`)"),
    })
}
