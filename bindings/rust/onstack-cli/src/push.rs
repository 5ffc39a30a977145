// SPDX-License-Identifier: MIT OR Apache-2.0
//! `push`: sends profiles to a server that takes Pyroscope's ingest requests.

mod backoff;
mod credentials;
mod parcel;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::failure::Failure;
use credentials::Credentials;
use server::Server;

#[derive(Args)]
#[command(after_help = "Environment, because command lines can be read by others:
  ONSTACK_PUSH_TOKEN                        a bearer token, or
  ONSTACK_PUSH_USER, ONSTACK_PUSH_PASSWORD  basic authentication
  ONSTACK_PUSH_TENANT                       the tenant (X-Scope-OrgID)

A connection that fails and an answer of 408, 429 or 5xx are tried again: after half a second, then twice as long each
time, at most half a minute (half of it by chance), or when the server says. 1: something was not sent, and the text says
what and why; 2: wrong arguments")]
pub struct Arguments {
    /// Profiles in pprof's format (compressed or not); `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The server, as http://localhost:4040; `/ingest` is added to it
    #[arg(long, env = "ONSTACK_PUSH_URL", hide_env_values = true)]
    url: String,
    /// The application that the profiles are of
    #[arg(long, value_parser = application)]
    name: String,
    /// A label of the profiles; any number of them
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<String>,
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

/// The server reads `name{key=value,...}` without any quoting: what would end a part of it cannot be said.
fn application(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if text.is_empty() || !text.chars().all(allowed) {
        return Err("letters, digits and any of `_-./` are expected".into());
    }
    Ok(text.to_owned())
}

fn label(text: &str) -> Result<String, String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is expected")?;
    let letters = |c: char| c.is_ascii_alphabetic() || c == '_';
    if !key.starts_with(letters) || !key.chars().all(|c| letters(c) || c.is_ascii_digit()) || key.starts_with("__") {
        return Err("a key of letters, digits and `_`, not a digit or `__` first, is expected".into());
    }
    if value.trim().is_empty() || value.contains(|c: char| ",{}".contains(c) || c.is_control()) {
        return Err("a value that is not empty and has none of `,{}` is expected".into());
    }
    Ok(text.to_owned())
}

pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let timeout = Duration::from_secs(arguments.timeout);
    let mut server = Server::new(&arguments.url, Credentials::of_environment()?, timeout)?;
    (server.retries, server.quiet) = (arguments.retries, arguments.quiet);
    let name = format!("{}{{{}}}", arguments.name, arguments.labels.join(","));
    let mut code = ExitCode::SUCCESS;
    for path in &arguments.files {
        // A file that cannot be sent says nothing about the next one; a server that takes none does.
        match parcel::read(path, arguments.max_size << 20) {
            Ok(parcel) => {
                server.send(&name, &parcel)?;
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
    fn what_the_server_would_read_as_something_else_is_refused() {
        assert!(application("team/my-app.cpu_2").is_ok());
        for name in ["", "a{b=c}", "a b", "ä"] {
            assert!(application(name).is_err(), "{name}");
        }
        for text in ["env=prod", "_a1=x y", "url=a=b"] {
            assert!(label(text).is_ok(), "{text}");
        }
        for text in ["env", "=x", "1a=x", "a-b=x", "__name__=x", "a=", "a= ", "a=b,c=d", "a=b}", "a=b\nc"] {
            assert!(label(text).is_err(), "{text}");
        }
    }
}
