// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile in pprof's format: ours or another's, from memory or from a file.

use std::collections::HashMap;
use std::fmt;
#[cfg(feature = "flamegraph")]
use std::io::BufWriter;
use std::io::{Read, Write};
use std::time::{Duration, SystemTime};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::Compression;

use onstack::{Error, Result};

use crate::language::{Language, Languages};
use crate::message::ProfileMessage;
use crate::stacks::Stacks;
use crate::summary::Summary;
use crate::top::Top;
use crate::tree::Tree;
use crate::wire::Message;
use crate::{demangle, folded, otlp, rename, symbolize, unpacked};

/// Stacks and what each spent, with names where they are known, and the forms in which they can be shown.
///
/// Every pprof profile can be read, of whatever language and of whatever values (CPU, heap, blocking).
#[derive(Clone)]
pub struct Profile {
    pub(crate) message: ProfileMessage,
}

/// What a compressed profile may become: some bytes, and so many for each of its own. True ones have three to twenty.
const SMALL_BYTES: u64 = 1 << 20;
const MOST_EXPANSION: u64 = 128;

impl Profile {
    /// Bytes that [`Profile::read`] takes at most, as they come and unpacked: 512 MiB. The largest profiles of real programs
    /// have some ten.
    pub const MAX_BYTES: u64 = 512 << 20;

    /// Reads a profile in pprof's format, compressed by gzip or not.
    ///
    /// # Errors
    /// [`Error::Input`] when the bytes are something else, or unpack to more frames than any real profile of their size has,
    /// [`Error::TooLarge`] when they are more than [`Profile::MAX_BYTES`], [`Error::Os`] when they cannot be read.
    pub fn read<R: Read>(reader: R) -> Result<Self> {
        Self::read_at_most(Self::MAX_BYTES, reader)
    }

    fn read_at_most<R: Read>(most: u64, reader: R) -> Result<Self> {
        let bytes = bytes_at_most(most, reader)?;
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Self::decode_foreign(&bytes);
        }
        let believable = SMALL_BYTES + MOST_EXPANSION * bytes.len() as u64;
        let plain = bytes_at_most(most.min(believable), MultiGzDecoder::new(&bytes[..])).map_err(|error| match error {
            Error::TooLarge if believable < most => {
                Error::Input(format!("it unpacks to more than {MOST_EXPANSION} times its size, as no profile does"))
            }
            Error::Os(error) => Error::Input(format!("the gzip data is damaged ({error})")),
            other => other,
        });
        Self::decode_foreign(&plain?)
    }

    /// Of a file, which may say anything.
    fn decode_foreign(bytes: &[u8]) -> Result<Self> {
        let profile = Self::decode(bytes)?;
        unpacked::check(&profile.message, bytes.len()).map_err(Error::Input)?;
        Ok(profile)
    }

    /// What it holds.
    pub fn message(&self) -> &ProfileMessage {
        &self.message
    }

    /// The same, to be changed; [`Profile::from`] takes it back.
    pub fn into_message(self) -> ProfileMessage {
        self.message
    }

    /// Chooses which of its values tables and pictures show from now on, as `inuse_space` or `alloc_objects` of a heap
    /// profile.
    ///
    /// # Errors
    /// [`Error::Input`] when it has no sample type of that name; the text lists those that it has.
    pub fn show(&mut self, sample_type: &str) -> Result<()> {
        let names: Vec<&str> = self.message.sample_type.iter().map(|value| self.message.text(value.r#type)).collect();
        let Some(index) = names.iter().position(|name| *name == sample_type) else {
            return Err(Error::Input(format!("it has no {sample_type}; it has {}", names.join(", "))));
        };
        self.message.default_sample_type = self.message.sample_type[index].r#type;
        Ok(())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let message = ProfileMessage::decode(bytes).map_err(|damage| Error::Input(damage.into()))?;
        // The decoder takes an empty input, and text that by chance has the shape, for an empty message.
        if message.sample_type.is_empty() || message.string_table.first().is_none_or(|first| !first.is_empty()) {
            return Err(Error::Input("it has no sample types or no string table".into()));
        }
        Ok(message.into())
    }

    /// Reads folded stacks, `main;f;g 12` in each line.
    ///
    /// # Errors
    /// [`Error::Input`] with the number of the first line that is something else, or when there are no stacks.
    pub fn from_folded(text: &str) -> Result<Self> {
        Ok(Self { message: folded::parse(text)? })
    }

    /// Looks up lines and inlined functions, and names where there are none, in the debug information of the files that the
    /// profile names, for a profile of another process on this machine. Files of another build than the one that ran are
    /// not asked, and what has a source file already stays as it is.
    pub fn symbolize(&mut self) {
        symbolize::complete(&mut [&mut self.message]);
    }

    /// As [`symbolize`](Self::symbolize), for profiles of processes that ran the same programs: each file is read once.
    pub fn symbolize_all(profiles: &mut [Self]) {
        let mut messages: Vec<&mut ProfileMessage> = profiles.iter_mut().map(|profile| &mut profile.message).collect();
        symbolize::complete(&mut messages);
    }

    /// Writes the profile in pprof's format, compressed by gzip, for a file `*.pb.gz`.
    ///
    /// # Errors
    /// [`Error::Output`] when `writer` fails.
    pub fn write_pprof<W: Write>(&self, writer: W) -> Result<()> {
        let mut encoder = GzEncoder::new(writer, Compression::default());
        let mut write = || {
            encoder.write_all(&self.to_bytes())?;
            encoder.try_finish()?;
            encoder.get_mut().flush()
        };
        write().map_err(Error::Output)
    }

    /// The profile in pprof's format, not compressed.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.message.encode(&mut bytes);
        bytes
    }

    /// Writes the profile for OpenTelemetry: an `ExportProfilesServiceRequest` of opentelemetry-proto 1.11, package
    /// `opentelemetry.proto.profiles.v1development`, not compressed. The signal is experimental there, and so is this.
    ///
    /// `resource` says whose profile it is, as `[("service.name", "shop")]`; of two attributes with one key the first stands.
    /// Labels become attributes of the samples, and the labels `trace_id` and `span_id`, in hexadecimal digits, their link
    /// to a span.
    ///
    /// # Errors
    /// [`Error::Options`] for an attribute without a key, [`Error::Output`] when `writer` fails.
    pub fn write_otlp<W: Write>(&self, mut writer: W, resource: &[(&str, &str)]) -> Result<()> {
        let bytes = self.to_otlp_bytes(resource)?;
        writer.write_all(&bytes).and_then(|()| writer.flush()).map_err(Error::Output)
    }

    /// The bytes that [`Profile::write_otlp`] writes.
    ///
    /// # Errors
    /// [`Error::Options`] for an attribute without a key.
    pub fn to_otlp_bytes(&self, resource: &[(&str, &str)]) -> Result<Vec<u8>> {
        if resource.iter().any(|(key, _)| key.is_empty()) {
            return Err(Error::Options("resource: an attribute has no key".into()));
        }
        Ok(otlp::encode(&self.message, resource))
    }

    /// Writes folded stacks: `thread;main;f;g 12`, root first, sorted. The number is of the value that [`Profile::show`] or the
    /// profile itself has chosen; of a time that neither has, in ticks.
    ///
    /// # Errors
    /// [`Error::Output`] when `writer` fails.
    pub fn folded<W: Write>(&self, mut writer: W) -> Result<()> {
        let mut write = || {
            for line in folded::lines(&self.message) {
                writeln!(writer, "{line}")?;
            }
            writer.flush()
        };
        write().map_err(Error::Output)
    }

    /// The functions and what each spent, the most expensive first.
    pub fn top(&self) -> Top {
        Top::new(&self.message)
    }

    /// The distinct stacks as the names of their functions, leaf first, and what each spent; in no order.
    pub fn stacks(&self) -> Vec<(Vec<String>, i64)> {
        let stacks = Stacks::new(&self.message);
        let index = stacks.default_value();
        let mut sums: HashMap<Vec<String>, i64> = HashMap::new();
        for sample in &self.message.sample {
            let sum = sums.entry(stacks.names(sample)).or_default();
            *sum = sum.saturating_add(sample.value.get(index).copied().unwrap_or(0));
        }
        sums.into_iter().collect()
    }

    /// Who called whom, from the roots on.
    pub fn tree(&self) -> Tree {
        Tree::new(&self.message)
    }

    /// What the functions of each language spent themselves, the largest first, as far as the profile tells languages apart.
    pub fn languages(&self) -> Vec<(Language, i64)> {
        Languages::new(&self.message).spent
    }

    /// A colour for each function, by its language, for `palette_map` of a flame graph's options: C blue, C++ purple, Rust orange,
    /// Go cyan, interpreted yellow, generated green; grey what has no name. Functions of one language differ a little.
    #[cfg(feature = "flamegraph")]
    pub fn colors_by_language(&self) -> inferno::flamegraph::color::PaletteMap {
        let mut palette = inferno::flamegraph::color::PaletteMap::default();
        palette.insert("all", color(Language::Unknown, "")); // inferno's root
        palette.insert("", color(Language::Unknown, ""));
        let stacks = Stacks::new(&self.message);
        for thread in self.message.sample.iter().filter_map(|sample| stacks.thread(sample)) {
            palette.insert(thread.chars().map(folded::written).collect::<String>(), color(Language::Unknown, thread));
        }
        for (name, language) in Languages::new(&self.message).of_names {
            palette.insert(name.chars().map(folded::written).collect::<String>(), color(language, &name));
        }
        palette
    }

    /// How good the profile is: what has names, what was cut, what was lost.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.message)
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
    /// [`Error::Empty`] without samples, [`Error::Output`] when `writer` fails, or when the values add up to 2^60 and more,
    /// which cannot be drawn.
    #[cfg(feature = "flamegraph")]
    pub fn flamegraph_with_options<W: Write>(
        &self,
        writer: W,
        options: &mut inferno::flamegraph::Options<'_>,
    ) -> Result<()> {
        let lines = folded::lines(&self.message);
        if lines.is_empty() {
            return Err(Error::Empty);
        }
        // inferno adds without a check.
        let values = lines.iter().filter_map(|line| line.rsplit_once(' ')?.1.parse().ok());
        if values.fold(0, u64::saturating_add) >= 1 << 60 {
            let why = "its values add up to 2^60 or more: no flame graph can be drawn of them";
            return Err(Error::Output(std::io::Error::new(std::io::ErrorKind::InvalidData, why)));
        }
        // It writes each tag by itself, some hundred thousand of them.
        let mut writer = BufWriter::new(writer);
        inferno::flamegraph::from_lines(options, lines.iter().map(String::as_str), &mut writer)
            .and_then(|()| writer.flush())
            .map_err(Error::Output)
    }

    /// When the samples began; nothing where the profile does not say.
    pub fn start(&self) -> Option<SystemTime> {
        let since = u64::try_from(self.message.time_nanos).ok().filter(|&time| time > 0)?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(since))
    }

    /// How long they were taken; zero where the profile does not say.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.message.duration_nanos).unwrap_or(0))
    }

    /// Lets a profile that does not say when it began have ended at `end`, for a server that files profiles by their time.
    pub fn end_at(&mut self, end: SystemTime) {
        if self.start().is_none() {
            let start = end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(self.duration());
            self.message.time_nanos = i64::try_from(start.as_nanos()).unwrap_or(i64::MAX);
        }
    }

    /// Remarks that the profile carries. Ours begin with `onstack.stats`, a session's counters, or `onstack.module`, a program or
    /// library that cut stacks.
    pub fn comments(&self) -> impl Iterator<Item = &str> {
        self.message.comments()
    }

    /// Whether it has no samples.
    pub fn is_empty(&self) -> bool {
        self.message.sample.is_empty()
    }

    /// Gives the labels of samples the names that `name` says, for a server that takes only some, and returns whether one
    /// changed. Labels of one sample that would become the same are told apart by a `_` at the end.
    pub fn rename_labels(&mut self, name: impl Fn(&str) -> String) -> bool {
        rename::labels(&mut self.message, &name)
    }

    /// Adds a remark.
    pub fn add_comment(&mut self, text: &str) {
        let index = self.message.intern(text);
        self.message.comment.push(index);
    }
}

#[cfg(feature = "flamegraph")]
fn color(language: Language, name: &str) -> inferno::flamegraph::color::Color {
    let (red, green, blue) = match language {
        Language::C => (110, 155, 225),
        Language::Cpp => (165, 130, 220),
        Language::Rust => (225, 130, 75),
        Language::Go => (75, 190, 205),
        Language::Interpreted => (235, 200, 75),
        Language::Generated => (120, 195, 105),
        Language::Unknown => (185, 185, 185),
    };
    // Names of one language are told apart by their brightness, the same in each picture.
    let hash = name.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    let shift = (hash >> 16) as u8 % 28;
    inferno::flamegraph::color::Color { r: red - 10 + shift, g: green - 10 + shift, b: blue - 10 + shift }
}

fn bytes_at_most<R: Read>(most: u64, reader: R) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = reader.take(most + 1).read_to_end(&mut bytes)?;
    if count as u64 > most {
        return Err(Error::TooLarge);
    }
    Ok(bytes)
}

/// Of a program's own making. Functions that have only the name of a symbol table get one for people; what leads nowhere has no
/// name.
impl From<ProfileMessage> for Profile {
    fn from(mut message: ProfileMessage) -> Self {
        demangle::demangle_functions(&mut message);
        Self { message }
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("stacks", &self.message.sample.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_summed_by_their_names() {
        let mut stacks = Profile::from_folded("main;f 2\nmain;g 1\nmain;f 4\n").unwrap().stacks();
        stacks.sort();
        let stack = |names: [&str; 2], value| (names.map(String::from).to_vec(), value);
        assert_eq!(stacks, [stack(["f", "main"], 6), stack(["g", "main"], 1)]);
    }
    use crate::message::{Function, Label, Line, Location, ProfileMessage, Sample, ValueType};

    /// Two stacks of `_ZN1a1bE` under `x;y`, one with a thread's name.
    fn message() -> ProfileMessage {
        let strings = ["", "samples", "count", "cpu", "nanoseconds", "_ZN1a1bE", "x;y", "thread", "worker"];
        let line = |function_id| vec![Line { function_id, ..Line::default() }];
        ProfileMessage {
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
                    ..Sample::default()
                },
            ],
            ..ProfileMessage::default()
        }
    }

    fn profile() -> Profile {
        let mut bytes = Vec::new();
        message().encode(&mut bytes);
        Profile::read(&bytes[..]).unwrap()
    }

    #[test]
    fn folded_stacks_go_from_the_thread_to_the_leaf() {
        let mut out = Vec::new();
        profile().folded(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "worker;x:y;x:y;a::b 4\nx:y;a::b 3\n");
    }

    #[test]
    fn top_counts_a_recursive_function_once() {
        let top = profile().top();
        assert_eq!((top.total, top.named, top.unit.as_str()), (70, 70, "nanoseconds"));
        let outer = top.get("x;y").unwrap();
        assert_eq!((outer.flat, outer.cum), (0, 70));
        assert_eq!(top.get("a::b").unwrap().flat, 70);
    }

    #[test]
    fn only_a_profile_without_a_time_gets_one() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut profile = profile();
        profile.message.duration_nanos = 10_000_000_000;
        profile.end_at(at(1_000));
        assert_eq!(profile.start(), Some(at(990)));
        profile.end_at(at(2_000));
        assert_eq!(profile.start(), Some(at(990)));
    }

    #[test]
    fn pprof_goes_out_and_comes_back() {
        let mut out = Vec::new();
        profile().write_pprof(&mut out).unwrap();
        assert!(out.starts_with(&[0x1f, 0x8b]));
        let back = Profile::read(&out[..]).unwrap();
        assert_eq!(back.message, profile().message);
        // The name of the symbol table is kept.
        let function = back.message.function[0];
        assert_eq!(back.message.string_table[function.system_name as usize], "_ZN1a1bE");
    }

    #[test]
    fn other_bytes_are_refused() {
        let mut cut = Vec::new();
        profile().write_pprof(&mut cut).unwrap();
        cut.truncate(cut.len() / 2);
        for bytes in [&b""[..], b"main;f 12\n", b"\x1f\x8bnot gzip", &cut] {
            assert!(matches!(Profile::read(bytes), Err(Error::Input(_))), "{bytes:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)] // minutes
    fn what_is_too_large_or_becomes_it_is_refused() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&[0; 20_000]).unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 1000);
        assert!(matches!(Profile::read_at_most(19_999, &bomb[..]), Err(Error::TooLarge)));
        assert!(matches!(Profile::read_at_most(20_000, &bomb[..]), Err(Error::Input(_))));
        assert!(matches!(Profile::read_at_most(1000, std::io::repeat(b'x')), Err(Error::TooLarge)));
        // Thirty kilobytes that would become thirty megabytes, and a gigabyte of samples.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        (0..32 << 10).for_each(|_| encoder.write_all(&[0x12, 0].repeat(512)).unwrap());
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 40_000, "{}", bomb.len());
        assert!(matches!(Profile::read(&bomb[..]), Err(Error::Input(why)) if why.contains("128 times")));
    }

    #[test]
    #[cfg_attr(miri, ignore)] // minutes
    fn messages_without_a_field_take_no_room() {
        let mut bytes = Vec::new();
        message().encode(&mut bytes);
        let samples = Profile::read(&bytes[..]).unwrap().message.sample.len();
        (0..100_000).for_each(|_| bytes.extend([0x12, 0, 0x1a, 0, 0x22, 0, 0x2a, 0]));
        let profile = Profile::read(&bytes[..]).unwrap();
        assert_eq!(profile.message.sample.len(), samples);
        assert!(profile.message.location.capacity() < 100 && profile.message.mapping.capacity() < 100);
    }

    /// An empty string says something, by its place.
    #[test]
    #[cfg_attr(miri, ignore)] // minutes
    fn strings_without_a_letter_end_somewhere() {
        let mut bytes = Vec::new();
        message().encode(&mut bytes);
        (0..8 << 20).for_each(|_| bytes.extend([0x32, 0]));
        let refused = Profile::read(&bytes[..]).unwrap_err().to_string();
        assert!(refused.contains("eight million"), "{refused}");
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
        assert!(matches!(profile().folded(Full), Err(Error::Output(_))));
        assert!(matches!(profile().write_pprof(Full), Err(Error::Output(_))));
    }

    #[cfg(feature = "flamegraph")]
    #[test]
    fn values_that_cannot_be_drawn_are_refused() {
        let huge = format!("main;a {}\nmain;b {}\n", i64::MAX, i64::MAX);
        let error = Profile::from_folded(&huge).unwrap().flamegraph(Vec::new()).unwrap_err();
        assert!(matches!(error, Error::Output(_)) && error.to_string().contains("2^60"), "{error}");
        Profile::from_folded("main;a 3\n").unwrap().flamegraph(Vec::new()).unwrap();
    }
}
