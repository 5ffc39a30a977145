// SPDX-License-Identifier: MIT OR Apache-2.0
//! One request: what it says, and what its answer means.

use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Error};

use super::backoff;
use super::target::{Parcel, Target};

/// Of the server's words.
const MOST_READ: u64 = 4 << 10;
const MOST_SHOWN: usize = 400;

/// From so many bytes on the server is asked first whether it wants them, so that a proxy with a smaller limit can say so
/// and not just hang up.
const LARGE: usize = 1 << 20;

/// Longer than between the files of one command, shorter than servers keep connections.
const IDLE: Duration = Duration::from_secs(5);

/// Sends parcels to one target.
pub struct Client {
    agent: Agent,
    target: Box<dyn Target>,
    headers: HeaderMap,
    timeout: Duration,
}

/// Why a server does not have a parcel.
pub struct Failure {
    /// For people, in one line, without anything secret.
    pub text: String,
    /// What can be done about it.
    pub kind: Kind,
}

/// What can be done about a failure.
pub enum Kind {
    /// It may go well later; zero: the server has not said when.
    Passing(Duration),
    /// The server's certificate is not trusted.
    Untrusted,
    /// The server wants credentials, or others.
    Unauthorized,
    /// It wants to be asked at that address; redirections are not followed.
    Elsewhere(String),
    /// Its body is larger than the server takes.
    TooLarge,
    /// The same request will be refused again.
    Final,
}

impl Client {
    /// `timeout` is for a whole request.
    ///
    /// # Errors
    /// There are no certificate authorities, and the target needs some.
    pub fn new(target: Box<dyn Target>, headers: HeaderMap, timeout: Duration) -> io::Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Neither the profile nor the credentials go where another server points.
            .max_redirects(0)
            .max_idle_age(IDLE)
            .timeout_global(Some(timeout))
            .user_agent(concat!("onstack/", env!("CARGO_PKG_VERSION")));
        if target.endpoint().starts_with("https:") {
            config = config.tls_config(TlsConfig::builder().root_certs(authorities()?).build());
        }
        Ok(Self { agent: config.build().new_agent(), target, headers, timeout })
    }

    /// Where it sends to.
    pub fn target(&self) -> &dyn Target {
        &*self.target
    }

    /// Tries once.
    ///
    /// # Errors
    /// The server does not have the parcel, as far as can be known.
    pub fn attempt(&self, parcel: &Parcel) -> Result<(), Failure> {
        let mut request = self.agent.post(self.target.endpoint()).content_type(parcel.content_type);
        for (name, value) in &parcel.query {
            request = request.query(name, value);
        }
        for (name, value) in self.target.headers() {
            request = request.header(*name, *value);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if parcel.body.len() >= LARGE {
            request = request.header("expect", "100-continue");
        }
        match request.send(&parcel.body[..]) {
            Ok(response) => self.answered(response),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: Error) -> Failure {
        let passing = |text| Failure { text, kind: Kind::Passing(Duration::ZERO) };
        match error {
            Error::Timeout(_) => passing(format!("no answer within {} s", self.timeout.as_secs_f64())),
            // A certificate that is not trusted comes as one of these two kinds.
            Error::Io(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
                Failure { text: error.to_string(), kind: Kind::Untrusted }
            }
            Error::Io(error) => passing(error.to_string()),
            Error::HostNotFound => passing("there is no such host".into()),
            Error::ConnectionFailed | Error::ConnectProxyFailed(_) | Error::BodyStalled | Error::Protocol(_) => {
                passing(error.to_string())
            }
            error => Failure { text: error.to_string(), kind: Kind::Final },
        }
    }

    fn answered(&self, mut response: Response<Body>) -> Result<(), Failure> {
        let status = response.status();
        // Read even if it is not wanted, so that the connection can be used again. What came before an error is as good as any.
        let mut bytes = Vec::new();
        let _ = response.body_mut().as_reader().take(MOST_READ).read_to_end(&mut bytes);
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
        if status.is_success() {
            let refused = self.target.refused(content_type, &bytes);
            return refused.map_or(Ok(()), |text| Err(Failure { text: shown(&printable(&text)), kind: Kind::Final }));
        }
        let words = printable(&self.target.words(content_type, &bytes));
        let text = if words.is_empty() { status.to_string() } else { format!("{status}: {}", shown(&words)) };
        Err(Failure { text, kind: self.kind(&response, &words) })
    }

    fn kind(&self, response: &Response<Body>, words: &str) -> Kind {
        let status = response.status();
        let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Kind::Unauthorized,
            StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLarge,
            status if status.is_redirection() => Kind::Elsewhere(without_query(field("location").unwrap_or("nowhere"))),
            status if self.target.passes(status.as_u16(), words) => Kind::Passing(after(field("retry-after"))),
            _ => Kind::Final,
        }
    }
}

fn after(field: Option<&str>) -> Duration {
    field.map_or(Duration::ZERO, |text| backoff::retry_after(text, SystemTime::now()))
}

/// A query may be secret.
fn without_query(location: &str) -> String {
    printable(location.split(['?', '#']).next().unwrap_or_default())
}

/// In one line, and without what a terminal would obey.
fn printable(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(words: &str) -> String {
    words.chars().take(MOST_SHOWN).collect()
}

/// Those that the system trusts, or the file that SSL_CERT_FILE names.
fn authorities() -> io::Result<RootCerts> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        let text =
            format!("no certificate authorities are installed{why}: install ca-certificates, or set SSL_CERT_FILE");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_text_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\r\n  c\n"), "a [2Jb c");
        assert_eq!(without_query("http://a/b?token=x#y"), "http://a/b");
    }
}
