// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that takes profiles as strictly as Pyroscope and Parca do, or OpenTelemetry's collector, and answers as it is told.

#![allow(dead_code)] // each test program uses a part

#[path = "../pprof/mod.rs"]
pub mod pprof;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use onstack_profile::Profile;

/// For what happens at some time on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub enum Reply {
    Take,
    /// Status, more header lines, text.
    Say(String, String, String),
    HangUp,
    /// The profile is kept and the answer is lost.
    TakeAndHangUp,
    /// Until the server is dropped.
    Hang,
    /// Without reading the body.
    SayAtOnce(&'static str),
}

pub fn say(status: impl ToString, headers: &str, text: &str) -> Reply {
    Reply::Say(status.to_string(), headers.to_owned(), text.to_owned())
}

pub struct Request {
    pub query: HashMap<String, String>,
    pub headers: HashMap<String, String>,
    pub profile: Profile,
}

/// What came for OpenTelemetry.
pub struct Export {
    pub headers: HashMap<String, String>,
    /// Unpacked.
    pub message: Vec<u8>,
}

impl Export {
    pub fn holds(&self, text: &str) -> bool {
        self.message.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

type Answer = dyn Fn(u64) -> Reply + Send + Sync;

#[derive(Default)]
struct Seen {
    requests: u64,
    taken: Vec<Request>,
    exports: Vec<Export>,
    unfit: Vec<String>,
    times: Vec<Instant>,
    over: bool,
}

pub struct Ingest {
    pub address: SocketAddr,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Ingest {
    /// `answer` gets the request's number, from 1 on.
    pub fn new(answer: impl Fn(u64) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    pub fn on(listener: TcpListener, answer: impl Fn(u64) -> Reply + Send + Sync + 'static) -> Self {
        pprof::prepare();
        let address = listener.local_addr().unwrap();
        let seen: Arc<(Mutex<Seen>, Condvar)> = Arc::default();
        let (answer, ours): (Arc<Answer>, _) = (Arc::new(answer), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, seen) = (answer.clone(), ours.clone());
                thread::spawn(move || serve(stream.unwrap(), &*answer, &seen));
            }
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> u64 {
        self.seen.0.lock().unwrap().requests
    }

    pub fn times(&self) -> Vec<Instant> {
        self.seen.0.lock().unwrap().times.clone()
    }

    /// What it took since the last time.
    pub fn taken(&self) -> Vec<Request> {
        std::mem::take(&mut self.fit().taken)
    }

    /// The same for OpenTelemetry.
    pub fn exports(&self) -> Vec<Export> {
        std::mem::take(&mut self.fit().exports)
    }

    fn fit(&self) -> MutexGuard<'_, Seen> {
        let seen = self.seen.0.lock().unwrap();
        assert!(seen.unfit.is_empty(), "the server cannot take {:?}", seen.unfit);
        seen
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        self.seen.0.lock().unwrap().over = true;
        self.seen.1.notify_all();
    }
}

fn serve(stream: TcpStream, answer: &Answer, seen: &(Mutex<Seen>, Condvar)) {
    let mut reader = BufReader::new(&stream);
    let Ok((line, headers)) = head(&mut reader) else { return };
    let number = {
        let mut seen = seen.0.lock().unwrap();
        seen.requests += 1;
        seen.times.push(Instant::now());
        seen.requests
    };
    let reply = answer(number);
    if let Reply::SayAtOnce(status) = reply {
        let _ = write!(&stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return;
    }
    if headers.contains_key("expect") {
        let _ = write!(&stream, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let (status, more, text) = match reply {
        Reply::Say(status, more, text) => (status, more, text),
        Reply::HangUp | Reply::SayAtOnce(_) => return,
        Reply::Hang => {
            let _over = seen.1.wait_while(seen.0.lock().unwrap(), |seen| !seen.over).unwrap();
            return;
        }
        Reply::Take | Reply::TakeAndHangUp => match take(&line, headers, &body, seen) {
            Ok(()) => {
                if matches!(reply, Reply::TakeAndHangUp) {
                    return;
                }
                ("200 OK".to_owned(), String::new(), String::new())
            }
            Err(why) => {
                seen.0.lock().unwrap().unfit.push(why.clone());
                ("422 Unprocessable Entity".to_owned(), String::new(), why)
            }
        },
    };
    let status = if status.contains(' ') { status } else { format!("{status} Status") };
    let length = text.len();
    let _ = write!(&stream, "HTTP/1.1 {status}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{text}");
}

fn head(reader: &mut impl BufRead) -> io::Result<(String, HashMap<String, String>)> {
    let mut lines = reader.by_ref().lines();
    let first = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    let mut headers = HashMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { return Ok((first, headers)) };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn take(
    line: &str,
    headers: HashMap<String, String>,
    body: &[u8],
    seen: &(Mutex<Seen>, Condvar),
) -> Result<(), String> {
    if line == "POST /v1development/profiles HTTP/1.1" {
        let export = export(headers, body)?;
        seen.0.lock().unwrap().exports.push(export);
    } else {
        let request = read(line, headers, body)?;
        seen.0.lock().unwrap().taken.push(request);
    }
    Ok(())
}

fn export(headers: HashMap<String, String>, body: &[u8]) -> Result<Export, String> {
    for (name, value) in [
        ("content-type", "application/x-protobuf"),
        ("content-encoding", "gzip"),
        ("otlp-profiles-development-version", "1"),
    ] {
        if headers.get(name).map(String::as_str) != Some(value) {
            return Err(format!("{name}: {:?}", headers.get(name)));
        }
    }
    let mut message = Vec::new();
    GzDecoder::new(body).read_to_end(&mut message).map_err(|error| error.to_string())?;
    Ok(Export { headers, message })
}

fn read(line: &str, headers: HashMap<String, String>, body: &[u8]) -> Result<Request, String> {
    let target = line.strip_prefix("POST ").and_then(|rest| rest.strip_suffix(" HTTP/1.1")).ok_or(line)?;
    let (path, query) = target.split_once('?').ok_or(line)?;
    let query: HashMap<String, String> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect();
    let number = |name: &str| query.get(name)?.parse::<u64>().ok();
    let (from, until) = number("from").zip(number("until")).ok_or("no from and until")?;
    if !path.ends_with("/ingest") || query["format"] != "pprof" || from < 1_000_000_000 || until <= from {
        return Err(line.to_owned());
    }
    if !body.starts_with(&[0x1f, 0x8b]) {
        return Err("no gzip".into());
    }
    pprof::check(body).unwrap_or(Ok(()))?;
    let profile = Profile::read(body).map_err(|error| error.to_string())?;
    let message = profile.message();
    for label in message.sample.iter().flat_map(|sample| &sample.label) {
        let key = &message.string_table[label.key as usize];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if key.is_empty() || !key.chars().all(word) || key.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("invalid label name {key:?}"));
        }
    }
    Ok(Request { query, headers, profile })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        bytes.push(match first {
            b'%' => {
                let (code, tail) = rest.split_at(2);
                rest = tail;
                u8::from_str_radix(std::str::from_utf8(code).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            other => *other,
        });
    }
    String::from_utf8(bytes).unwrap()
}

pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    let mut holds = holds;
    let limit = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < limit, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The threads of this process that have such a name.
pub fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim_end().starts_with(name)).count()
}
