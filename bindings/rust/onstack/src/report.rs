// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report: the samples of one moment with their names, and the forms in which it can be written.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Write};
use std::time::{Duration, SystemTime};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::Compression;
use prost::Message;

use crate::demangle::demangle;
use crate::error::{Error, Result};
use crate::folded;
use crate::profile::Profile;
use crate::protos;
use crate::top::Top;

/// Makes a [`Report`]; from [`ProfilerGuard::report`](crate::ProfilerGuard::report).
pub struct ReportBuilder<'a> {
    profile: &'a Profile,
    start: SystemTime,
    duration: Duration,
}

impl<'a> ReportBuilder<'a> {
    pub(crate) fn new(profile: &'a Profile, start: SystemTime, duration: Duration) -> Self {
        Self { profile, start, duration }
    }

    /// Copies the samples and looks their names up. This can take a while and some memory in a large program; sampling
    /// goes on meanwhile.
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn build(&self) -> Result<Report> {
        let bytes = self.profile.write_pprof(self.start, self.duration)?;
        Report::decode(&bytes)
    }
}

impl fmt::Debug for ReportBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportBuilder").finish_non_exhaustive()
    }
}

/// Samples of a moment, with names. Independent of the guard that it came from.
#[derive(Clone)]
pub struct Report {
    profile: protos::Profile,
}

impl Report {
    /// Reads a report back from a pprof profile, ours or another's, compressed by gzip or not.
    ///
    /// # Errors
    /// [`Error::Input`] when the bytes are something else, [`Error::Os`] when they cannot be read.
    pub fn from_pprof<R: Read>(mut reader: R) -> Result<Self> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            let read = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain);
            read.map_err(|error| Error::Input(format!("the gzip data is damaged ({error})")))?;
            bytes = plain;
        }
        Self::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut profile = protos::Profile::decode(bytes).map_err(|error| Error::Input(error.to_string()))?;
        // The decoder takes an empty input, and text that by chance has the shape, for an empty message.
        if profile.sample_type.is_empty() || profile.string_table.first().map_or(true, |first| !first.is_empty()) {
            return Err(Error::Input("it has no sample types or no string table".into()));
        }
        demangle_functions(&mut profile);
        Ok(Self { profile })
    }

    /// Writes the profile in pprof's format, compressed by gzip, for a file `*.pb.gz`.
    ///
    /// # Errors
    /// [`Error::Output`] when `writer` fails.
    pub fn write_pprof<W: Write>(&self, writer: W) -> Result<()> {
        let mut encoder = GzEncoder::new(writer, Compression::default());
        let mut write = || {
            encoder.write_all(&self.profile.encode_to_vec())?;
            encoder.try_finish()?;
            encoder.get_mut().flush()
        };
        write().map_err(Error::Output)
    }

    /// The profile as a message of pprof's format.
    ///
    /// # Errors
    /// None so far.
    #[cfg(feature = "prost-codec")]
    pub fn pprof(&self) -> Result<protos::Profile> {
        Ok(self.profile.clone())
    }

    /// Writes folded stacks: `thread;main;f;g 12`, root first, the number in ticks, sorted.
    ///
    /// # Errors
    /// [`Error::Output`] when `writer` fails.
    pub fn folded<W: Write>(&self, mut writer: W) -> Result<()> {
        let mut write = || {
            for line in folded::lines(&self.profile) {
                writeln!(writer, "{line}")?;
            }
            writer.flush()
        };
        write().map_err(Error::Output)
    }

    /// The functions and what each spent, the most expensive first.
    pub fn top(&self) -> Top {
        Top::new(&self.profile)
    }

    /// Draws a flame graph as SVG.
    ///
    /// # Errors
    /// [`Error::Empty`] without samples, [`Error::Output`] when `writer` fails.
    #[cfg(feature = "flamegraph")]
    pub fn flamegraph<W: Write>(&self, writer: W) -> Result<()> {
        self.flamegraph_with_options(writer, &mut inferno::flamegraph::Options::default())
    }

    /// Draws a flame graph as SVG, as `options` say.
    ///
    /// # Errors
    /// [`Error::Empty`] without samples, [`Error::Output`] when `writer` fails.
    #[cfg(feature = "flamegraph")]
    pub fn flamegraph_with_options<W: Write>(
        &self,
        writer: W,
        options: &mut inferno::flamegraph::Options<'_>,
    ) -> Result<()> {
        let lines = folded::lines(&self.profile);
        if lines.is_empty() {
            return Err(Error::Empty);
        }
        inferno::flamegraph::from_lines(options, lines.iter().map(String::as_str), writer).map_err(Error::Output)
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("stacks", &self.profile.sample.len()).finish_non_exhaustive()
    }
}

/// Gives names for people to functions that have only that of a symbol table.
fn demangle_functions(profile: &mut protos::Profile) {
    let strings = &mut profile.string_table;
    let mut demangled: HashMap<i64, Option<i64>> = HashMap::new();
    for function in &mut profile.function {
        let source = if function.name == 0 { function.system_name } else { function.name };
        let name = *demangled.entry(source).or_insert_with(|| {
            let name = demangle(strings.get(usize::try_from(source).ok()?)?)?;
            strings.push(name);
            i64::try_from(strings.len() - 1).ok()
        });
        if let Some(name) = name {
            if function.system_name == 0 {
                function.system_name = source;
            }
            function.name = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protos::{Function, Label, Line, Location, Profile, Sample, ValueType};

    /// Two stacks of `_ZN1a1bE` under `x;y`, one with a thread's name.
    fn profile() -> Profile {
        let strings = ["", "samples", "count", "cpu", "nanoseconds", "_ZN1a1bE", "x;y", "thread", "worker"];
        let line = |function_id| vec![Line { function_id, ..Line::default() }];
        Profile {
            sample_type: vec![ValueType { r#type: 1, unit: 2 }, ValueType { r#type: 3, unit: 4 }],
            string_table: strings.map(String::from).to_vec(),
            function: vec![
                Function { id: 1, name: 5, system_name: 5, ..Function::default() },
                Function { id: 2, name: 6, ..Function::default() },
            ],
            location: vec![
                Location { id: 1, line: line(1), ..Location::default() },
                Location { id: 2, line: line(2), ..Location::default() },
            ],
            sample: vec![
                Sample { location_id: vec![1, 2], value: vec![3, 30], ..Sample::default() },
                Sample {
                    location_id: vec![1, 2, 2],
                    value: vec![4, 40],
                    label: vec![Label { key: 7, str: 8, ..Label::default() }],
                },
            ],
            ..Profile::default()
        }
    }

    fn report() -> Report {
        Report::from_pprof(&profile().encode_to_vec()[..]).unwrap()
    }

    #[test]
    fn folded_stacks_go_from_the_thread_to_the_leaf() {
        let mut out = Vec::new();
        report().folded(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "worker;x:y;x:y;a::b 4\nx:y;a::b 3\n");
    }

    #[test]
    fn top_counts_a_recursive_function_once() {
        let top = report().top();
        assert_eq!((top.total, top.named, top.unit.as_str()), (70, 70, "nanoseconds"));
        let outer = top.get("x;y").unwrap();
        assert_eq!((outer.flat, outer.cum), (0, 70));
        assert_eq!(top.get("a::b").unwrap().flat, 70);
    }

    #[test]
    fn pprof_goes_out_and_comes_back() {
        let mut out = Vec::new();
        report().write_pprof(&mut out).unwrap();
        assert!(out.starts_with(&[0x1f, 0x8b]));
        let back = Report::from_pprof(&out[..]).unwrap();
        assert_eq!(back.profile, report().profile);
        // The name of the symbol table is kept.
        let function = back.profile.function[0];
        assert_eq!(back.profile.string_table[function.system_name as usize], "_ZN1a1bE");
    }

    #[test]
    fn other_bytes_are_refused() {
        let mut cut = Vec::new();
        report().write_pprof(&mut cut).unwrap();
        cut.truncate(cut.len() / 2);
        for bytes in [&b""[..], b"main;f 12\n", b"\x1f\x8bnot gzip", &cut] {
            assert!(matches!(Report::from_pprof(bytes), Err(Error::Input(_))), "{bytes:?}");
        }
    }

    #[test]
    fn a_writer_that_fails_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::WriteZero.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        assert!(matches!(report().folded(Full), Err(Error::Output(_))));
        assert!(matches!(report().write_pprof(Full), Err(Error::Output(_))));
    }
}
