// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what a person points at: a pprof profile or folded stacks.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use onstack::Profile;

use crate::failure::Failure;

/// Reads a file, or the standard input for `-`.
pub fn read(path: &Path) -> Result<Profile, Failure> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    let bytes = bytes.map_err(|error| Failure::new(path, format!("cannot read: {error}")))?;
    parse(bytes).map_err(|what| Failure::new(path, what))
}

fn parse(bytes: Vec<u8>) -> Result<Profile, String> {
    if bytes.is_empty() {
        return Err("is empty; the profiler that writes it may still be running".into());
    }
    let bytes = match String::from_utf8(bytes) {
        // pprof begins with a message whose tag is a line end, so look for what only pprof has.
        Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) => {
            return Profile::from_folded(&text).map_err(|error| match error {
                onstack::Error::Input(why) => why,
                other => other.to_string(),
            });
        }
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    Profile::read(&bytes[..])
        .map_err(|error| format!("{error}; give a pprof profile (*.pb.gz) or folded stacks (`main;f 12`)"))
}
