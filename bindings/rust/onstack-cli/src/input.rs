// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the two kinds of input apart.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use onstack::Report;

use crate::failure::Failure;

/// What a file holds.
pub enum Input {
    Folded(String),
    Pprof(Box<Report>),
}

impl Input {
    /// Reads a file, or the standard input for `-`.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = if path == Path::new("-") {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            fs::read(path)
        };
        let bytes = bytes.map_err(|error| Failure::new(path, format!("cannot read: {error}")))?;
        Self::parse(bytes).map_err(|what| Failure::new(path, what))
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("is empty; the profiler that writes it may still be running".into());
        }
        let bytes = match String::from_utf8(bytes) {
            // pprof begins with a message whose tag is a line end, so look for what only pprof has.
            Ok(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) => {
                check_folded(&text)?;
                return Ok(Self::Folded(text));
            }
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        };
        match Report::from_pprof(&bytes[..]) {
            Ok(report) => Ok(Self::Pprof(Box::new(report))),
            Err(error) => Err(format!("{error}; give a pprof profile (*.pb.gz) or folded stacks (`main;f 12`)")),
        }
    }
}

/// Every line is a stack and a number.
fn check_folded(text: &str) -> Result<(), String> {
    let mut stacks = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        let value = line.rsplit_once(' ').and_then(|(_, number)| number.parse::<f64>().ok());
        if !value.is_some_and(|value| value.is_finite() && value >= 0.0) {
            let number = index + 1;
            return Err(format!(
                "line {number} is no folded stack: frames joined by `;`, a space and a number expected"
            ));
        }
        stacks += 1;
    }
    if stacks == 0 {
        return Err("holds no stacks; profile for longer, or while the program uses CPU".into());
    }
    Ok(())
}
