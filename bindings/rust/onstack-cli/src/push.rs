// SPDX-License-Identifier: MIT OR Apache-2.0
//! `push`: sends profiles to a server.

mod credentials;
mod parcel;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use onstack_http::push::{PushPart, PushProtocol};

use crate::failure::Failure;
use server::Server;

#[derive(Args)]
#[command(after_help = "Environment, because command lines can be read by others:
  ONSTACK_PUSH_TOKEN                        a bearer token, or
  ONSTACK_PUSH_USER, ONSTACK_PUSH_PASSWORD  basic authentication
  ONSTACK_PUSH_TENANT                       the tenant (X-Scope-OrgID)

A connection that fails and an answer of 408, 429 or 5xx (of OpenTelemetry 429, 502, 503, 504) are tried again: after half
a second, then twice as long each time, at most half a minute (half of it by chance), or when the server says. 1: something
was not sent, and the text says what and why; 2: wrong arguments")]
pub struct Arguments {
    /// Profiles in pprof's format (compressed or not); `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the server understands
    #[arg(long, value_enum, value_name = "NAME", env = "ONSTACK_PUSH_PROTOCOL", default_value_t = Protocol::Ingest)]
    protocol: Protocol,
    /// The server, as http://localhost:4040, or http://localhost:4318 of OpenTelemetry; `/ingest` or
    /// `/v1development/profiles` is added to it
    #[arg(long, env = "ONSTACK_PUSH_URL", hide_env_values = true)]
    url: String,
    /// The application that the profiles are of; service.name of OpenTelemetry
    #[arg(long)]
    name: String,
    /// A label of the profiles, or the resource's attribute of OpenTelemetry; any number of them
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// How long one try may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// How often it is tried again
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(0..=100))]
    retries: u32,
    /// The largest file that is sent, as it is and uncompressed
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    max_size: u64,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    /// Pyroscope's ingest requests
    Ingest,
    /// OpenTelemetry's over HTTP (experimental, as its profiles are)
    Otlp,
}

/// A value that is empty is a slip here: a variable of the script that was not set.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is expected")?;
    if value.trim().is_empty() {
        return Err("a value that is not empty is expected".into());
    }
    Ok((key.to_owned(), value.to_owned()))
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let protocol = match arguments.protocol {
        Protocol::Ingest => PushProtocol::Ingest,
        Protocol::Otlp => PushProtocol::Otlp,
    };
    let labels = arguments.labels.iter().cloned().collect();
    let target = protocol.target(&arguments.url, &arguments.name, &labels).map_err(|(part, what)| {
        let option = match part {
            PushPart::Url => "--url",
            PushPart::Service => "--name",
            PushPart::Label => "--label",
        };
        Failure::of_arguments(format!("{option}: {what}"))
    })?;
    let timeout = Duration::from_secs(arguments.timeout);
    let mut server = Server::new(target, timeout)?;
    (server.retries, server.quiet) = (arguments.retries, arguments.quiet);
    let mut code = ExitCode::SUCCESS;
    for path in &arguments.files {
        // A file that cannot be sent says nothing about the next one; a server that takes none does.
        match parcel::read(path, arguments.max_size << 20, server.target()) {
            Ok(parcel) => {
                server.send(&parcel)?;
                if !arguments.quiet {
                    eprintln!("onstack: {}: sent", path.display());
                }
            }
            Err(failure) => {
                eprintln!("onstack: {failure}");
                code = failure.code();
            }
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_a_name_and_a_value() {
        assert_eq!(label("url=a=b"), Ok(("url".into(), "a=b".into())));
        for text in ["env", "a=", "a= "] {
            assert!(label(text).is_err(), "{text}");
        }
    }
}
