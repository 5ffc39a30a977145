// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pusher's thread. It alone takes profiles, keeps those that wait, and decides what is sent when; a request has a thread
//! of its own, which a server may keep waiting while profiles are taken.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use onstack_profile::Profile;

use super::backoff::Backoff;
use super::books::{self, Books, Fate};
use super::client::{Client, Failure, Kind};
use super::options::{self, PushEvent, PushOptions, PushOutcome, Report};
use super::queue::Queue;
use super::target::Parcel;

/// Where profiles come from.
pub(super) trait Source: Send {
    /// What was sampled since the last time.
    fn take(&mut self) -> onstack::Result<Profile>;
    /// The next `take` is the last.
    fn stop(&mut self) -> onstack::Result<()>;
}

/// What the thread waits for.
pub(super) enum Event {
    Stop,
    Attempted(Arc<Parcel>, Result<(), Failure>),
}

/// How long what takes.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) interval: Duration,
    pub(super) flush: Duration,
    /// Of the back-off.
    pub(super) least: Duration,
    pub(super) most: Duration,
}

impl Times {
    pub(super) fn of(options: &PushOptions) -> Self {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(60));
        Self { interval: options.interval, flush: options.flush_timeout, least, most }
    }
}

pub(super) struct Run {
    client: Arc<Client>,
    source: Box<dyn Source>,
    report: Option<Report>,
    books: Arc<Mutex<Books>>,
    queue: Queue,
    limits: (usize, usize),
    events: Sender<Event>,
    is_sending: bool,
    /// Before that nothing is sent; the second is what the server has asked for, which the end does not cut short.
    next_try: Instant,
    allowed: Instant,
}

impl Run {
    pub(super) fn new(
        options: &PushOptions,
        client: Arc<Client>,
        report: Option<Report>,
        source: Box<dyn Source>,
        events: Sender<Event>,
    ) -> Self {
        let limits = (options.max_waiting, options.max_waiting_bytes);
        let now = Instant::now();
        Self {
            client,
            source,
            report,
            books: Arc::default(),
            queue: Queue::new(limits.0, limits.1),
            limits,
            events,
            is_sending: false,
            next_try: now,
            allowed: now,
        }
    }

    pub(super) fn books(&self) -> Arc<Mutex<Books>> {
        self.books.clone()
    }

    pub(super) fn run(mut self, times: Times, events: &Receiver<Event>) {
        let mut backoff = Backoff::new(times.least, times.most);
        self.collect(times.interval, &mut backoff, events);
        match self.source.stop() {
            Ok(()) => self.take(),
            Err(error) => self.lose(&error),
        }
        // There is little time left.
        backoff.reset();
        self.next_try = self.allowed;
        self.flush(times.flush, &mut backoff, events);
        self.abandon();
    }

    /// A profile each interval, until the pusher is stopped.
    fn collect(&mut self, interval: Duration, backoff: &mut Backoff, events: &Receiver<Event>) {
        // A part of the first interval only: services that were started together shall not all send together.
        let mut due = Instant::now() + interval.mul_f64(0.5 + fastrand::f64() / 2.0);
        loop {
            let now = Instant::now();
            if now >= due {
                due = now + interval;
                self.take();
            }
            self.send();
            let wake = if self.is_ready() { due.min(self.next_try) } else { due };
            match events.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Ok(Event::Attempted(parcel, result)) => self.settle(&parcel, result, backoff),
                Ok(Event::Stop) => return,
                Err(_) => {}
            }
        }
    }

    /// Sends what waits, as long as that is worth while.
    fn flush(&mut self, flush: Duration, backoff: &mut Backoff, events: &Receiver<Event>) {
        let end = Instant::now() + flush;
        loop {
            self.send();
            let wake = if self.is_ready() { self.next_try } else { end };
            let is_over = self.is_ready() && wake >= end || self.queue.is_empty() && !self.is_sending;
            let now = Instant::now();
            if is_over || now >= end {
                return;
            }
            if let Ok(Event::Attempted(parcel, result)) = events.recv_timeout(wake.min(end) - now) {
                self.settle(&parcel, result, backoff);
            }
        }
    }

    /// There is something to be sent, and nothing is being sent.
    fn is_ready(&self) -> bool {
        !self.is_sending && !self.queue.is_empty()
    }

    fn send(&mut self) {
        if !self.is_ready() || Instant::now() < self.next_try {
            return;
        }
        let Some(parcel) = self.queue.take() else { return };
        let (client, events) = (self.client.clone(), self.events.clone());
        let sent = parcel.clone();
        let work = move || {
            let attempt = catch_unwind(AssertUnwindSafe(|| client.attempt(&sent)));
            let result = attempt.unwrap_or_else(|_| Err(passing("the request ended by a panic".into())));
            let _ = events.send(Event::Attempted(sent, result));
        };
        self.is_sending = true;
        if let Err(error) = thread::Builder::new().name("onstack-send".into()).spawn(work) {
            let failure = passing(format!("no thread can be made for the request: {error}"));
            let _ = self.events.send(Event::Attempted(parcel, Err(failure)));
        }
    }

    fn settle(&mut self, parcel: &Arc<Parcel>, result: Result<(), Failure>, backoff: &mut Backoff) {
        self.is_sending = false;
        let Err(failure) = result else {
            backoff.reset();
            return books::lock(&self.books).ends(Fate::Sent);
        };
        let place = self.client.target().endpoint();
        let mut error = format!("onstack: push to {place}: {}", failure.text);
        let asked = match failure.kind {
            Kind::Passing(asked) => asked,
            // It may be renewed while the service runs.
            Kind::Untrusted => Duration::ZERO,
            Kind::Elsewhere(there) => {
                error += &format!(": it redirects to {there}, which is not followed: give that as PushOptions::url");
                return self.refused(error, backoff);
            }
            Kind::TooLarge => {
                error += ": make profiles smaller, by a shorter PushOptions::interval";
                return self.refused(error, backoff);
            }
            Kind::Unauthorized | Kind::Final => return self.refused(error, backoff),
        };
        let wait = backoff.next(asked);
        let now = Instant::now();
        (self.next_try, self.allowed) = (now + wait, now + asked);
        self.keep(parcel, wait, error);
    }

    fn refused(&mut self, error: String, backoff: &mut Backoff) {
        backoff.reset(); // the server is there
        books::lock(&self.books).ends(Fate::Failed);
        self.tell(PushOutcome::Failed, None, error);
    }

    /// It is the oldest: where there is no room it goes.
    fn keep(&mut self, parcel: &Arc<Parcel>, wait: Duration, error: String) {
        if !self.queue.has_room(parcel) {
            books::lock(&self.books).ends(Fate::Dropped);
            return self.tell(PushOutcome::Dropped, None, error);
        }
        self.queue.put_back(parcel.clone());
        books::lock(&self.books).stats.retries += 1;
        self.tell(PushOutcome::Retry, Some(wait), error);
    }

    fn take(&mut self) {
        let parcel = match self.source.take() {
            Ok(profile) if profile.is_empty() => return books::lock(&self.books).ends_at_once(Fate::Empty),
            Ok(profile) => self.client.target().pack(profile, None, SystemTime::now()),
            Err(error) => Err(error),
        };
        match parcel {
            Ok(parcel) => self.put(parcel),
            Err(error) => self.lose(&error),
        }
    }

    /// Tells of each profile that has to go.
    fn put(&mut self, parcel: Parcel) {
        let (most, bytes) = self.limits;
        if self.queue.is_too_large(&parcel) {
            books::lock(&self.books).ends_at_once(Fate::Dropped);
            let error = format!(
                "onstack: push: a profile of {} bytes goes, as PushOptions::max_waiting_bytes is {bytes}: raise that, or make \
                 profiles smaller by a shorter interval",
                parcel.held()
            );
            return self.tell(PushOutcome::Dropped, None, error);
        }
        books::lock(&self.books).waits();
        while !self.queue.has_room(&parcel) {
            drop(self.queue.take());
            books::lock(&self.books).ends(Fate::Dropped);
            let place = self.client.target().endpoint();
            let error = format!(
                "onstack: push: the server at {place} is too slow or away, PushOptions::max_waiting is {most} and \
                 max_waiting_bytes {bytes}: the oldest profile goes"
            );
            self.tell(PushOutcome::Dropped, None, error);
        }
        self.queue.push(Arc::new(parcel));
    }

    /// Counts a profile that could not be made.
    fn lose(&mut self, error: &onstack::Error) {
        books::lock(&self.books).ends_at_once(Fate::Failed);
        self.tell(PushOutcome::Failed, None, format!("onstack: push: a profile cannot be made: {error}"));
    }

    /// What waits when the time is over, with what is still being sent: nobody hears any more what becomes of that.
    fn abandon(&mut self) {
        let place = self.client.target().endpoint();
        let error = format!("onstack: push: the end came before the server at {place} took the profile");
        let mut sending = std::mem::take(&mut self.is_sending);
        while std::mem::take(&mut sending) || self.queue.take().is_some() {
            books::lock(&self.books).ends(Fate::Dropped);
            self.tell(PushOutcome::Dropped, None, error.clone());
        }
    }

    fn tell(&mut self, outcome: PushOutcome, retry: Option<Duration>, error: String) {
        let stats = books::lock(&self.books).stats;
        let event = PushEvent { outcome, error, retry, stats };
        let Some(report) = &mut self.report else { return options::log(&event) };
        if catch_unwind(AssertUnwindSafe(|| report(&event))).is_err() {
            self.report = None;
        }
    }
}

fn passing(text: String) -> Failure {
    Failure { text, kind: Kind::Passing(Duration::ZERO) }
}
