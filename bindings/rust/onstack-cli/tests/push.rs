// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack push` against a server on this machine that answers as it is told, unless google/pprof cannot take what it was
//! sent, and keeps that.
#![cfg(feature = "push")]

mod pprof;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use onstack_pprof_compat::protos::{Label, Message, Profile};

/// An answer, or nothing at all: the connection is closed.
type Answer = Option<&'static str>;

const OK: Answer = Some("200 OK\r\ncontent-length: 0");
const BUSY: Answer = Some("503 Service Unavailable\r\ncontent-length: 0");

struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    at: Instant,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Answers one connection each, the last answer for ever.
fn server(answers: &'static [Answer]) -> (SocketAddr, Receiver<Request>) {
    pprof::prepare();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().unwrap();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for (index, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a connection");
            let Some(request) = receive(&mut stream) else { continue };
            let verdict = request.line.contains("/ingest").then(|| pprof::check(&request.body)).flatten();
            let refusal = verdict.and_then(Result::err).map(|why| refusal(&why));
            if sender.send(request).is_err() {
                return;
            }
            if let Some(answer) = refusal.as_deref().or(answers[index.min(answers.len() - 1)]) {
                let _ = write!(stream, "HTTP/1.1 {answer}\r\nconnection: close\r\n\r\n");
            }
        }
    });
    (address, requests)
}

fn refusal(why: &str) -> String {
    format!("422 Unprocessable Entity\r\ncontent-length: {}\r\n\r\n{why}", why.len())
}

fn receive(stream: &mut TcpStream) -> Option<Request> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let line = lines.next()?.to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut request = Request { line, headers, body: Vec::new(), at: Instant::now() };
    let length = request.header("content-length")?.parse().ok()?;
    request.body = vec![0; length];
    stream.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// Without what the person who runs the tests has set.
fn command(address: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
    command.args(["push", "--name", "app", "--url", &format!("http://{address}")]).args(arguments);
    for name in ["TOKEN", "USER", "PASSWORD", "TENANT", "URL", "PROTOCOL"] {
        command.env_remove(format!("ONSTACK_PUSH_{name}"));
    }
    for name in ["http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command
}

fn push(address: SocketAddr, arguments: &[&str]) -> Output {
    command(address, arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn file(name: &str, bytes: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("push-{name}"));
    fs::write(&path, bytes).expect("a temporary file");
    path.to_str().expect("a path of text").to_owned()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Ten seconds and a half from 1,700,000,000 on.
fn profile() -> Profile {
    let mut bytes = Vec::new();
    onstack_profile::Profile::from_folded("main;hot 6\n").unwrap().write_pprof(&mut bytes).unwrap();
    let mut profile = Profile::decode(&unpacked(&bytes)[..]).unwrap();
    (profile.time_nanos, profile.duration_nanos) = (1_700_000_000_000_000_000, 10_500_000_000);
    profile
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip data");
    plain
}

#[test]
fn a_server_that_is_busy_twice_gets_the_profile() {
    let (address, requests) = server(&[BUSY, BUSY, OK]);
    let path = file("busy.pb.gz", &gzip(&profile().encode_to_vec()));
    let output = push(address, &["--label", "env=test", "--label", "zone=a b", &path]);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    for part in ["503 Service Unavailable; retry 1 of 6 in 0.", "retry 2 of 6", "busy.pb.gz: sent"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    let requests: Vec<Request> = requests.try_iter().collect();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(Profile::decode(&unpacked(&request.body)[..]).unwrap(), profile());
        let (place, query) = request.line.split_once('?').unwrap();
        assert_eq!(place, "POST /ingest");
        let query = query.strip_suffix(" HTTP/1.1").unwrap();
        let decoded = query.replace("%7B", "{").replace("%7D", "}").replace("%3D", "=").replace("%2C", ",");
        let decoded = decoded.replace("%20", " ");
        assert_eq!(
            decoded,
            "name=app{env=test,zone=a b}&from=1700000000&until=1700000011&spyName=onstack&format=pprof"
        );
        assert_eq!(request.header("content-type"), Some("application/octet-stream"));
        assert!(request.header("authorization").is_none() && request.header("x-scope-orgid").is_none());
    }
}

/// Named by option or by variable; tests/otlp reads what a real collector passes on.
#[test]
fn a_collector_gets_otlp() {
    let (address, requests) = server(&[BUSY, OK]);
    let mut bare = profile();
    (bare.time_nanos, bare.duration_nanos) = (0, 0);
    let path = file("otlp.pb.gz", &gzip(&bare.encode_to_vec()));
    let output = push(address, &["--protocol", "otlp", "--label", "deployment.environment.name=a, b", &path]);
    let message = text(&output.stderr);
    assert!(output.status.success() && message.contains("503 Service Unavailable; retry 1 of 6"), "{message}");
    let output = command(address, &[&path]).env("ONSTACK_PUSH_PROTOCOL", "otlp").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let requests: Vec<Request> = requests.try_iter().collect();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.line, "POST /v1development/profiles HTTP/1.1");
        for (name, value) in [
            ("content-type", "application/x-protobuf"),
            ("content-encoding", "gzip"),
            ("otlp-profiles-development-version", "1"),
        ] {
            assert_eq!(request.header(name), Some(value));
        }
        let mut expected = onstack_profile::Profile::read(&bare.encode_to_vec()[..]).unwrap();
        expected.end_at(fs::metadata(&path).unwrap().modified().unwrap());
        let mut resource = vec![("service.name", "app"), ("deployment.environment.name", "a, b")];
        resource.truncate(if request.at == requests[2].at { 1 } else { 2 });
        assert_eq!(unpacked(&request.body), expected.to_otlp_bytes(&resource).unwrap());
    }
}

#[test]
fn what_a_collector_refuses_is_not_sent_again() {
    let path = file("otlp-refused.pb", &profile().encode_to_vec());
    for (answers, why) in [
        (&[Some("500 Internal Server Error\r\ncontent-length: 5\r\n\r\nsorry")], "500 Internal Server Error: sorry"),
        (&[Some("408 Request Timeout\r\ncontent-length: 0")], "408 Request Timeout"),
        (
            &[Some("400 Bad Request\r\ncontent-type: application/x-protobuf\r\ncontent-length: 7\r\n\r\n\x08\x03\x12\x03why")],
            "400 Bad Request: why",
        ),
        (&[Some("413 Content Too Large\r\ncontent-length: 0")], "take the profile over a shorter time"),
        (
            &[Some("200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 13\r\n\r\n\x0a\x0b\x08\x02\x12\x07no room")],
            "the server has refused 2 of its parts: no room",
        ),
    ] {
        let (address, requests) = server(answers);
        let output = push(address, &["--protocol", "otlp", &path]);
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), requests.try_iter().count()), (Some(1), 1), "{message}");
        assert!(message.contains(why) && message.contains(&format!("http://{address}/v1development/")), "{message}");
    }
}

/// What Rust's decoder takes and the command may send shows in these tests all the same.
#[test]
fn the_server_takes_no_profile_that_google_pprof_refuses() {
    let mut unsound = profile();
    unsound.sample[0].value.push(1);
    let unsound = unsound.encode_to_vec();
    assert!(Profile::decode(&unsound[..]).is_ok());
    let (address, requests) = server(&[OK]);
    let output = push(address, &[&file("unsound.pb", &unsound)]);
    assert_eq!(requests.try_recv().expect("a request").body, unsound);
    let Some(verdict) = pprof::check(&unsound) else { return };
    assert!(verdict.is_err());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("422 Unprocessable Entity: google/pprof: malformed profile: mismatch"), "{message}");
}

/// For one such name the server refuses the whole profile.
#[test]
fn labels_that_the_server_does_not_take_are_renamed() {
    let mut labelled = profile();
    let mut intern = |text: &str| {
        labelled.string_table.push(text.to_owned());
        labelled.string_table.len() as i64 - 1
    };
    let label = Label { key: intern("http.route"), str: intern("/a"), ..Label::default() };
    labelled.sample[0].label.push(label);
    let (address, requests) = server(&[OK]);
    let output = push(address, &[&file("labelled.pb", &labelled.encode_to_vec())]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let sent = Profile::decode(&unpacked(&requests.try_recv().expect("a request").body)[..]).unwrap();
    let [key, value] =
        [sent.sample[0].label[0].key, sent.sample[0].label[0].str].map(|index| &sent.string_table[index as usize]);
    assert_eq!((key.as_str(), value.as_str()), ("http_route", "/a"));
}

#[test]
fn a_server_that_says_when_is_not_asked_before() {
    let (address, requests) =
        server(&[Some("429 Too Many Requests\r\nretry-after: 2\r\ncontent-length: 4\r\n\r\nslow"), OK]);
    let path = file("later.pb", &profile().encode_to_vec());
    let output = push(address, &[&path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let requests: Vec<Request> = requests.try_iter().collect();
    assert_eq!(requests.len(), 2);
    // By itself it would have come after half a second.
    assert!(requests[1].at - requests[0].at >= Duration::from_millis(1900));

    let (address, requests) = server(&[Some("429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 0"), OK]);
    let output = push(address, &[&path]);
    assert!(text(&output.stderr).contains("asks to wait 3600 s"), "{}", text(&output.stderr));
    assert_eq!((output.status.code(), requests.try_iter().count()), (Some(1), 1));
}

#[test]
fn an_answer_that_will_not_change_is_not_asked_for_again() {
    let path = file("refused.pb", &profile().encode_to_vec());
    for (answers, why) in [
        (
            &[Some("422 Unprocessable Entity\r\ncontent-length: 14\r\n\r\nbad \u{1b}[2J\nlabel")],
            "422 Unprocessable Entity: bad [2J label",
        ),
        (&[Some("401 Unauthorized\r\ncontent-length: 0")], "names the variables"),
        (&[Some("404 Not Found\r\ncontent-length: 0")], "404 Not Found"),
        (
            &[Some("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0")],
            "points to http://127.0.0.1:1/",
        ),
    ] {
        let (address, requests) = server(answers);
        let output = push(address, &[&path]);
        let message = text(&output.stderr);
        assert_eq!((output.status.code(), requests.try_iter().count()), (Some(1), 1), "{message}");
        assert!(message.contains(why) && message.contains(&format!("http://{address}/ingest")), "{message}");
        assert!(!message.contains('\u{1b}'), "{message:?}");
    }
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let path = file("broken.pb", &profile().encode_to_vec());
    let (address, requests) = server(&[None, OK]);
    let output = push(address, &[&path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(requests.try_iter().count(), 2);
    // A port where nobody listens any more.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = push(address, &["--retries", "1", &path]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("refused") && message.contains("gave up after 2 tries"), "{message}");
}

/// It says so where the server is away.
#[test]
fn a_proxy_without_a_server_is_asked_again() {
    let path = file("proxy.pb", &profile().encode_to_vec());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut byte = [0];
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            assert!(head.starts_with(b"CONNECT "));
            let _ = write!(stream, "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let mut command = command(address, &["--retries", "1", &path]);
    command.env("all_proxy", format!("http://{address}")).env_remove("no_proxy").env_remove("NO_PROXY");
    let output = command.output().unwrap();
    let message = text(&output.stderr);
    assert!(message.contains("502") && message.contains("gave up after 2 tries"), "{message}");
}

#[test]
fn a_server_that_never_answers_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = file("silent.pb", &profile().encode_to_vec());
    let output = push(listener.local_addr().unwrap(), &["--timeout", "1", "--retries", "0", &path]);
    let message = text(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("no answer within 1 s"), "{message}");
}

#[test]
fn credentials_come_from_the_environment_and_are_never_shown() {
    let path = file("credentials.pb", &profile().encode_to_vec());
    let (address, requests) = server(&[Some("403 Forbidden\r\ncontent-length: 0")]);
    for (variables, expected) in [
        (&[("TOKEN", "s3cret")][..], Some("Bearer s3cret")),
        (&[("USER", "me"), ("PASSWORD", "s3cret"), ("TOKEN", "")], Some("Basic bWU6czNjcmV0")),
        (&[("TENANT", "s3cret")], None),
    ] {
        let mut command = command(address, &[&path]);
        command.envs(variables.iter().map(|(name, value)| (format!("ONSTACK_PUSH_{name}"), value)));
        let output = command.output().unwrap();
        assert!(!text(&output.stderr).contains("s3cret"), "{}", text(&output.stderr));
        let request = requests.try_recv().expect("a request");
        assert_eq!(request.header("authorization"), expected);
        assert_eq!(request.header("x-scope-orgid").is_some(), expected.is_none());
    }
    for (variables, code, why) in [
        (&[("TOKEN", "s3cret"), ("USER", "me")][..], 2, "only one of the two"),
        (&[("PASSWORD", "s3cret")], 2, "without ONSTACK_PUSH_USER"),
        (&[("TOKEN", "s3cret\r\nx: y")], 1, "ONSTACK_PUSH_TOKEN: holds a line end"),
    ] {
        let mut command = command(address, &[&path]);
        command.envs(variables.iter().map(|(name, value)| (format!("ONSTACK_PUSH_{name}"), value)));
        let output = command.output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(why) && !message.contains("s3cret"), "{message}");
    }
    assert_eq!(requests.try_iter().count(), 0);
}

#[test]
fn what_is_no_profile_or_too_large_is_named_and_the_rest_is_sent() {
    let (address, requests) = server(&[OK]);
    let bytes = profile().encode_to_vec();
    let good = file("good.pb", &bytes);
    let zeros = vec![0; (1 << 20) + 1];
    let cases = [
        (file("large.pb", &zeros), "is larger than 1 MiB: `--max-size`"),
        (file("bomb.pb.gz", &gzip(&zeros)), "is larger than 1 MiB when unpacked"),
        (file("cut.pb.gz", &gzip(&bytes)[..20]), "the gzip data is damaged"),
        (file("twice.pb.gz", &gzip(&gzip(&bytes))), "it is compressed twice"),
        (file("words.txt", b"main;f 12\n"), "not a pprof profile"),
        (file("nothing.pb", b""), "not a pprof profile"),
        ("/nowhere/x.pb".to_owned(), "cannot read"),
    ];
    let mut arguments = vec!["--max-size", "1"];
    arguments.extend(cases.iter().map(|(path, _)| path.as_str()));
    arguments.push(&good);
    let output = push(address, &arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for (path, why) in &cases {
        let line = message.lines().find(|line| line.starts_with(&format!("onstack: {path}: ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{path}, {why}: {message}");
    }
    let requests: Vec<Request> = requests.try_iter().collect();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].body, bytes);
}

/// A file without end, and one of a mebibyte that unpacks to a gibibyte, under a limit that neither would fit into.
#[test]
fn no_file_fills_the_memory() {
    let (address, requests) = server(&[OK]);
    let bomb = file("gibibyte.pb.gz", &gzip(&vec![0; 1 << 20]).repeat(1100)[..1 << 20]);
    for (path, why) in [("/dev/zero", "is larger than 1 MiB:"), (&bomb, "is larger than 1 MiB when unpacked:")] {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -v 400000 && exec \"$0\" \"$@\""]);
        let inner = command(address, &["--max-size", "1", path]);
        limited.arg(inner.get_program()).args(inner.get_args());
        inner.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
            limited.env_remove(name);
        });
        let output = limited.output().expect("a shell");
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(1) && message.contains(why), "{message}");
    }
    assert_eq!(requests.try_iter().count(), 0);
}

#[test]
fn a_profile_from_a_pipe_without_a_time_gets_one() {
    let (address, requests) = server(&[OK]);
    let mut bare = profile();
    (bare.time_nanos, bare.duration_nanos) = (0, 0);
    let mut child = command(address, &["--quiet", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().unwrap().write_all(&bare.encode_to_vec()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let line = requests.try_recv().expect("a request").line;
    let number = |name: &str| -> u64 {
        let rest = &line[line.find(name).expect("a parameter") + name.len()..];
        rest[..rest.find('&').expect("another one")].parse().expect("a number")
    };
    let (from, until) = (number("from="), number("until="));
    assert!(from > 1_700_000_000 && until == from + 1, "{line}");
}

#[test]
fn wrong_arguments_are_code_2() {
    let (address, requests) = server(&[OK]);
    let path = file("arguments.pb", &profile().encode_to_vec());
    for arguments in [
        &["--label", "env"][..],
        &["--label", "1x=y"],
        &["--timeout", "0"],
        &["--max-size", "0"],
        &["--retries", "101"],
        &["--token", "x"],
        &["--protocol", "grpc"],
        &["--protocol", "otlp", "--label", "service.name=x"],
        &["--protocol", "otlp", "--label", "a="],
    ] {
        assert_eq!(push(address, &[arguments, &[&path]].concat()).status.code(), Some(2), "{arguments:?}");
    }
    for url in ["localhost:4040", "http://me:s3cret@localhost:4040", "ftp://localhost"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
        let output = command.args(["push", "--name", "app", "--url", url, &path]).output().unwrap();
        let message = text(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains("--url"), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
    assert_eq!(requests.try_iter().count(), 0);
}
