// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms in which a profile is written, and whose profile it is where a form says that; `convert` writes one in another form.

use std::env;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use onstack_profile::Profile;

use crate::failure::Failure;
use crate::filter::Shape;
use crate::timeline::{firefox, Timeline};
use crate::{input, output};

#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    /// pprof's, compressed (*.pb.gz)
    Pprof,
    /// OpenTelemetry's, an ExportProfilesServiceRequest of opentelemetry-proto 1.11 (experimental, as that is)
    Otlp,
    /// A line a stack, `main;f;g 12`
    Folded,
    /// The Firefox Profiler's: threads over time, for profiler.firefox.com. Needs times of samples (`onstack record --timeline`)
    Firefox,
}

impl Format {
    /// The name of the file that nobody has named.
    pub fn file(self) -> &'static str {
        match self {
            Self::Pprof => "profile.pb.gz",
            Self::Otlp => "profile.otlp",
            Self::Folded => "profile.folded",
            Self::Firefox => "profile.firefox.json",
        }
    }

    /// Whether it draws when samples were taken.
    pub fn needs_times(self) -> bool {
        matches!(self, Self::Firefox)
    }

    /// What would fail later.
    ///
    /// # Errors
    /// A resource that this form does not have, or that cannot be read.
    pub fn check(self, resource: &Resource) -> Result<(), Failure> {
        match self {
            Self::Otlp => resource.all().map(|_| ()),
            _ if resource.given.is_empty() => Ok(()),
            _ => Err(Failure::of_arguments("--resource: only --format otlp says whose profile it is")),
        }
    }

    pub fn bytes(self, profile: &Profile, resource: &Resource, output: &Path) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let timeline = || Timeline::new(profile).map_err(|why| Failure::new(output, why));
        let title = output.file_name().unwrap_or_default().to_string_lossy();
        let written = match self {
            Self::Pprof => profile.write_pprof(&mut bytes),
            Self::Otlp => {
                let resource = resource.all()?;
                let pairs: Vec<_> = resource.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
                profile.write_otlp(&mut bytes, &pairs)
            }
            Self::Folded => profile.folded(&mut bytes),
            Self::Firefox => return Ok(firefox::bytes(&timeline()?, &title)),
        };
        written.map(|()| bytes).map_err(|error| Failure::new(output, error))
    }
}

#[derive(Args)]
pub struct Resource {
    /// An attribute of the service, as service.name=shop, for OpenTelemetry; any number of them. OTEL_SERVICE_NAME and
    /// OTEL_RESOURCE_ATTRIBUTES say the rest
    #[arg(long = "resource", value_name = "KEY=VALUE", value_parser = attribute)]
    given: Vec<(String, String)>,
}

fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is expected".into()),
    }
}

impl Resource {
    /// What was given, and then what the environment says: of two attributes with one key the first counts.
    pub fn all(&self) -> Result<Vec<(String, String)>, Failure> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let mut all = self.given.clone();
        all.extend(variable("OTEL_SERVICE_NAME").map(|name| ("service.name".into(), name)));
        if let Some(text) = variable("OTEL_RESOURCE_ATTRIBUTES") {
            let attributes = attributes(&text).ok_or_else(|| {
                Failure::of_arguments("OTEL_RESOURCE_ATTRIBUTES: key=value,key=value is expected, %2C for a comma")
            })?;
            all.extend(attributes);
        }
        Ok(all)
    }
}

/// OpenTelemetry's form of a list.
fn attributes(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let key = key.trim();
        (!key.is_empty()).then_some((key.to_owned(), unescaped(value.trim())?))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

/// `%2C` becomes a comma.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? << 4 | digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[derive(Args)]
pub struct Arguments {
    /// A pprof profile (compressed or not) or folded stacks; `-` is the standard input
    input: PathBuf,
    /// What it becomes
    #[arg(long, value_enum, value_name = "NAME")]
    format: Format,
    /// Where it goes; the standard output unless given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which of the profile's values readers show, and folded and firefox have; as inuse_space of a heap profile
    #[arg(long, value_name = "NAME")]
    sample_type: Option<String>,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    resource: Resource,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.format.check(&arguments.resource)?;
    let mut profile = input::read_type(&arguments.input, arguments.sample_type.as_deref())?;
    arguments.shape.apply(&mut profile).map_err(|why| Failure::new(&arguments.input, why))?;
    let bytes = arguments.format.bytes(&profile, &arguments.resource, &arguments.input)?;
    output::write(arguments.output.as_deref(), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_opentelemetry_writes_them() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            attributes("service.name=a%2Cb, host.name = h=1 ,,x="),
            Some(vec![pair("service.name", "a,b"), pair("host.name", "h=1"), pair("x", "")])
        );
        assert_eq!(attributes(" "), Some(Vec::new()));
        for text in ["a", "=b", "a=%2", "a=%zz", "a=%ff"] {
            assert_eq!(attributes(text), None, "{text}");
        }
    }
}
