// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is sent, and where.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use onstack::ProfilerGuardBuilder;

use super::books::PushStats;
use super::client::Client;
use super::header;
use super::otlp::{self, Otlp};
use super::pyroscope::{self, Pyroscope};
use super::target::Target;
use crate::error::Error;
use crate::profiling::Profiling;

const LEAST_INTERVAL: Duration = Duration::from_secs(1);
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);
/// Clocks have no moment that is `Duration::MAX` away: a hundred years stand for all that is longer.
const MOST_TIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

pub(super) type Report = Box<dyn FnMut(&PushEvent) + Send>;

/// What is sent, and where. What is not set has the default that stands with it.
pub struct PushOptions {
    protocol: PushProtocol,
    url: String,
    service: String,
    labels: BTreeMap<String, String>,
    headers: Vec<(String, String)>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) flush_timeout: Duration,
    pub(super) max_waiting: usize,
    pub(super) max_waiting_bytes: usize,
    profile: Profiling,
    pub(super) report: Option<Report>,
}

impl PushOptions {
    /// `url` is the server's, `https://pyroscope.example.org` or `http://collector:4318`; `/ingest` or, of
    /// [`PushProtocol::Otlp`], `/v1development/profiles` is added where it is not its end. `service` is the service's name
    /// there: letters, digits, and any of `_-./`; of OTLP any text.
    pub fn new(url: impl Into<String>, service: impl Into<String>) -> Self {
        Self {
            protocol: PushProtocol::default(),
            url: url.into(),
            service: service.into(),
            labels: BTreeMap::new(),
            headers: Vec::new(),
            interval: Duration::from_secs(15),
            timeout: Duration::from_secs(10),
            flush_timeout: Duration::from_secs(5),
            max_waiting: 20,
            max_waiting_bytes: 64 << 20,
            profile: Profiling::default(),
            report: None,
        }
    }

    /// What the server understands; [`PushProtocol::Ingest`] unless set.
    #[must_use]
    pub fn protocol(mut self, protocol: PushProtocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// A label of all profiles: environment, host, version. Names are letters, digits and underscores, and do not begin with
    /// a digit; values have no comma and no closing brace, which the server would take for their end. Of
    /// [`PushProtocol::Otlp`] they are the resource's attributes, of any text: `deployment.environment.name`.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// A header of each request: `Authorization`, or `X-Scope-OrgID` for the tenant.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Basic authentication for each request, as Grafana Cloud wants it.
    #[must_use]
    pub fn basic_auth(self, user: &str, password: &str) -> Self {
        self.header("Authorization", header::basic(user, password))
    }

    /// Between two profiles, from 1 s on; 15 s unless set.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.min(MOST_TIME);
        self
    }

    /// Of a request; 10 s unless set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(MOST_TIME);
        self
    }

    /// For what waits when the pusher has been stopped and the last profile is made; 5 s unless set.
    #[must_use]
    pub fn flush_timeout(mut self, timeout: Duration) -> Self {
        self.flush_timeout = timeout.min(MOST_TIME);
        self
    }

    /// Profiles that wait, besides the one that is being sent; 20 unless set.
    #[must_use]
    pub fn max_waiting(mut self, profiles: usize) -> Self {
        self.max_waiting = profiles;
        self
    }

    /// How many bytes these hold, compressed, and the largest profile that is sent at all; 64 MiB unless set.
    #[must_use]
    pub fn max_waiting_bytes(mut self, bytes: usize) -> Self {
        self.max_waiting_bytes = bytes;
        self
    }

    /// How to profile: `.profile(|builder| builder.frequency(19))`. Thread ids are off unless it says otherwise, as Pyroscope
    /// drops labels that are numbers.
    #[must_use]
    pub fn profile(
        mut self,
        change: impl Fn(ProfilerGuardBuilder) -> ProfilerGuardBuilder + Send + Sync + 'static,
    ) -> Self {
        self.profile = Profiling::by(change);
        self
    }

    /// Is told of each attempt that failed and of each profile that is lost, on the pusher's thread; sampling goes on
    /// meanwhile, sending waits. Unless set, and from a panic in it on, the `log` crate gets a warning.
    #[must_use]
    pub fn report(mut self, report: impl FnMut(&PushEvent) + Send + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    pub(super) fn builder(&self) -> ProfilerGuardBuilder {
        self.profile.of(ProfilerGuardBuilder::default().thread_ids(false))
    }

    /// Once: the report goes to the caller.
    pub(super) fn sender(&mut self) -> Result<(Arc<Client>, Option<Report>), Error> {
        self.check_numbers()?;
        let wrong = |name| move |text| Error::Option { name, text };
        let target =
            self.protocol.target(&self.url, &self.service, &self.labels).map_err(|(name, text)| Error::Option {
                name: match name {
                    PushPart::Url => "PushOptions::url",
                    PushPart::Service => "PushOptions::service",
                    PushPart::Label => "PushOptions::label",
                },
                text,
            })?;
        let headers = header::checked(&self.headers, target.headers()).map_err(wrong("PushOptions::header"))?;
        let client = Client::new(target, headers, self.timeout).map_err(Error::Os)?;
        Ok((Arc::new(client), self.report.take()))
    }

    /// By their names.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> [(&'static str, String); 5] {
        let seconds = |duration: Duration| duration.as_secs_f64().to_string();
        [
            ("PushOptions::interval", seconds(self.interval)),
            ("PushOptions::timeout", seconds(self.timeout)),
            ("PushOptions::flush_timeout", seconds(self.flush_timeout)),
            ("PushOptions::max_waiting", self.max_waiting.to_string()),
            ("PushOptions::max_waiting_bytes", self.max_waiting_bytes.to_string()),
        ]
    }

    fn check_numbers(&self) -> Result<(), Error> {
        for (name, value, least) in [
            ("PushOptions::interval", self.interval, LEAST_INTERVAL),
            ("PushOptions::timeout", self.timeout, LEAST_TIMEOUT),
            ("PushOptions::flush_timeout", self.flush_timeout, LEAST_TIMEOUT),
        ] {
            if value < least {
                return Err(Error::Option { name, text: format!("{value:?}: give {least:?} or more") });
            }
        }
        for (name, value) in
            [("PushOptions::max_waiting", self.max_waiting), ("PushOptions::max_waiting_bytes", self.max_waiting_bytes)]
        {
            if value == 0 {
                return Err(Error::Option { name, text: "0: give a number from 1 on".into() });
            }
        }
        Ok(())
    }
}

/// Without headers, which are secrets, and without the URL, which may hold one by mistake.
impl fmt::Debug for PushOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("PushOptions");
        debug
            .field("protocol", &self.protocol)
            .field("service", &self.service)
            .field("labels", &self.labels)
            .field("interval", &self.interval);
        debug.field("timeout", &self.timeout).field("flush_timeout", &self.flush_timeout);
        debug.field("max_waiting", &self.max_waiting).field("max_waiting_bytes", &self.max_waiting_bytes);
        debug.field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// What a server understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushProtocol {
    /// Pyroscope's ingest requests.
    #[default]
    Ingest,
    /// OpenTelemetry's over HTTP, of which the profiles signal is experimental.
    Otlp,
}

/// What of a server's description is wrong.
pub enum PushPart {
    /// The server's address.
    Url,
    /// The service's name.
    Service,
    /// A label.
    Label,
}

impl PushProtocol {
    /// A server that understands it. `labels` are those of all profiles.
    ///
    /// # Errors
    /// The part that is wrong, and a text that goes on behind its name.
    pub fn target(
        self,
        url: &str,
        service: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Box<dyn Target>, (PushPart, String)> {
        type Checks =
            (fn(&str) -> Result<String, String>, fn(&str) -> Result<(), String>, fn(&str, &str) -> Result<(), String>);
        let (endpoint, check_service, check_label): Checks = match self {
            Self::Ingest => (pyroscope::endpoint, pyroscope::check_service, pyroscope::check_label),
            Self::Otlp => (otlp::endpoint, otlp::check_service, otlp::check_label),
        };
        let endpoint = endpoint(url).map_err(|text| (PushPart::Url, text))?;
        check_service(service).map_err(|text| (PushPart::Service, text))?;
        for (name, value) in labels {
            check_label(name, value).map_err(|text| (PushPart::Label, text))?;
        }
        Ok(match self {
            Self::Ingest => Box::new(Pyroscope::new(endpoint, service, labels)),
            Self::Otlp => Box::new(Otlp::new(endpoint, service, labels)),
        })
    }
}

/// What became of a profile that could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushOutcome {
    /// It waits for the next attempt, after [`PushEvent::retry`].
    Retry,
    /// Lost: the server refused it for good, or it could not be made.
    Failed,
    /// Lost: no room to wait, or no time left after the end.
    Dropped,
}

impl fmt::Display for PushOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushOutcome::Retry => "retry",
            PushOutcome::Failed => "failed",
            PushOutcome::Dropped => "dropped",
        })
    }
}

/// Something that went wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PushEvent {
    /// What became of the profile.
    pub outcome: PushOutcome,
    /// Why, in one line.
    pub error: String,
    /// Until the next attempt, of [`PushOutcome::Retry`].
    pub retry: Option<Duration>,
    /// With this event in it.
    pub stats: PushStats,
}

/// For whom no report is set.
pub(super) fn log(event: &PushEvent) {
    let PushEvent { outcome, error, retry, stats } = event;
    let wait = retry.map_or_else(String::new, |wait| format!(" retry={wait:.1?}"));
    let PushStats { sent, failed, dropped, waiting, .. } = stats;
    log::warn!(
        target: "onstack_http",
        "profile not sent: outcome={outcome} error={error:?}{wait} sent={sent} failed={failed} dropped={dropped} \
         waiting={waiting}"
    );
}
