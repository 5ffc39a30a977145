// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server's side: requests, what its answers mean, and when to try again.

use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use ureq::http::{header, Response, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Error};

use super::backoff;
use super::credentials::Credentials;
use super::parcel::Parcel;
use crate::failure::Failure;

pub struct Server {
    agent: Agent,
    endpoint: String,
    credentials: Credentials,
    timeout: Duration,
    pub retries: u32,
    pub quiet: bool,
}

/// What became of one try.
enum Outcome {
    Taken,
    Refused(String),
    /// May go well later; the server may have said when.
    Failed(String, Option<Duration>),
}

impl Server {
    pub fn new(url: &str, credentials: Credentials, timeout: Duration) -> Result<Self, Failure> {
        let endpoint = endpoint(url).map_err(|what| Failure::of_arguments(format!("--url: {what}")))?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Neither the profile nor the credentials go where another server points.
            .max_redirects(0)
            .timeout_global(Some(timeout))
            .user_agent(concat!("onstack/", env!("CARGO_PKG_VERSION")));
        if endpoint.starts_with("https:") {
            config = config.tls_config(TlsConfig::builder().root_certs(authorities()?).build());
        }
        let agent = config.build().new_agent();
        Ok(Self { agent, endpoint, credentials, timeout, retries: 0, quiet: false })
    }

    pub fn send(&self, name: &str, parcel: &Parcel) -> Result<(), Failure> {
        let failure = |what: String| Failure::new(Path::new(&self.endpoint), what);
        let mut tried = 0;
        loop {
            let (what, asked) = match self.attempt(name, parcel) {
                Outcome::Taken => return Ok(()),
                Outcome::Refused(what) => return Err(failure(what)),
                Outcome::Failed(what, asked) => (what, asked.unwrap_or_default()),
            };
            if tried == self.retries {
                return Err(failure(format!("{what}; gave up after {} tries", tried + 1)));
            }
            if asked > backoff::PATIENCE {
                return Err(failure(format!("{what}; it asks to wait {} s: send it again then", asked.as_secs())));
            }
            let wait = backoff::wait(tried).max(asked);
            tried += 1;
            if !self.quiet {
                let (endpoint, seconds) = (&self.endpoint, wait.as_secs_f64());
                eprintln!("onstack: {endpoint}: {what}; retry {tried} of {} in {seconds:.1} s", self.retries);
            }
            thread::sleep(wait);
        }
    }

    /// The body is the profile as it is: with `format=pprof` the server looks for no form around it.
    fn attempt(&self, name: &str, parcel: &Parcel) -> Outcome {
        let mut request = self
            .agent
            .post(&self.endpoint)
            .query("name", name)
            .query("from", parcel.from.to_string())
            .query("until", parcel.until.to_string())
            .query("format", "pprof")
            .content_type("application/octet-stream");
        if let Some(value) = &self.credentials.authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        if let Some(value) = &self.credentials.tenant {
            request = request.header("X-Scope-OrgID", value);
        }
        match request.send(&parcel.bytes[..]) {
            Ok(response) => answered(response),
            Err(error) => self.failed(error),
        }
    }

    fn failed(&self, error: Error) -> Outcome {
        match error {
            Error::Timeout(_) => Outcome::Failed(format!("no answer within {} s", self.timeout.as_secs()), None),
            // A certificate that is not trusted comes as one of these two kinds.
            Error::Io(error) if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
                Outcome::Failed(error.to_string(), None)
            }
            Error::HostNotFound => Outcome::Failed("there is no such host".into(), None),
            Error::ConnectionFailed | Error::BodyStalled => Outcome::Failed(error.to_string(), None),
            Error::Io(error) => Outcome::Refused(error.to_string()),
            error => Outcome::Refused(error.to_string()),
        }
    }
}

fn answered(mut response: Response<Body>) -> Outcome {
    let status = response.status();
    if status.is_success() {
        return Outcome::Taken;
    }
    let said = said(&mut response);
    let what = format!("answered {status}{said}");
    let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {}
        status if status.is_server_error() => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Outcome::Refused(format!("{what}; `onstack push --help` names the variables for credentials"));
        }
        status if status.is_redirection() => {
            let place = printable(field("location").unwrap_or("nowhere"));
            return Outcome::Refused(format!("{what}; it points to {place}, which is not followed: name it as --url"));
        }
        _ => return Outcome::Refused(what),
    }
    Outcome::Failed(what, field("retry-after").and_then(|text| backoff::retry_after(text, SystemTime::now())))
}

/// The beginning of the server's own text, where it has one.
fn said(response: &mut Response<Body>) -> String {
    let mut bytes = Vec::new();
    // What came before an error is as good as any.
    let _ = response.body_mut().as_reader().take(400).read_to_end(&mut bytes);
    let text = printable(&String::from_utf8_lossy(&bytes));
    if text.is_empty() {
        text
    } else {
        format!(": {text}")
    }
}

/// In one line, and without what a terminal would obey.
fn printable(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the requests go to. The URL is not repeated in a text: a person may have put a password into it.
fn endpoint(url: &str) -> Result<String, &'static str> {
    let uri: Uri = url.parse().map_err(|_| "is no URL; http://localhost:4040 is one")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("begins neither with http:// nor with https://");
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("holds a user or password, which others can read here: `onstack push --help` names the variables");
    }
    if uri.query().is_some() {
        return Err("holds a query: only the server and a path are expected");
    }
    let base = url.split('#').next().unwrap_or(url).trim_end_matches('/');
    Ok(if base.ends_with("/ingest") { base.to_owned() } else { format!("{base}/ingest") })
}

/// Those that the system trusts, or the file that SSL_CERT_FILE names.
fn authorities() -> Result<RootCerts, Failure> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        let what =
            format!("no certificate authorities are installed{why}: install ca-certificates, or set SSL_CERT_FILE");
        return Err(Failure::new(Path::new("https"), what));
    }
    Ok(found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_or_its_endpoint_may_be_named() {
        for (url, expected) in [
            ("http://localhost:4040", "http://localhost:4040/ingest"),
            ("https://host/", "https://host/ingest"),
            ("https://host/path/", "https://host/path/ingest"),
            ("http://[::1]:4040/ingest", "http://[::1]:4040/ingest"),
        ] {
            assert_eq!(endpoint(url), Ok(expected.to_owned()));
        }
        for url in ["", "localhost:4040", "/ingest", "ftp://host", "http://", "http://a:b@host", "http://host/?x=y"] {
            assert!(endpoint(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_servers_text_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\r\n  c\n"), "a [2Jb c");
    }
}
