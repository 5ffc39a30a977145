// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pusher over TLS: a server that is not trusted gets nothing, and each attempt is told. Alone in its program: the
//! authorities come from the environment.
#![cfg(feature = "push")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{eventually, pprof};
use onstack_http::{Error, PushOptions, PushOutcome, Pusher};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authority, and a certificate of its for `localhost`: made on the spot, so none runs out.
fn certificates() -> Option<PathBuf> {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("push-tls");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for line in [
        format!("req -x509 {key} -keyout authority.key -out authority.pem -days 2 -subj /CN=authority"),
        format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
        "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -set_serial 1 -days 2 -extfile names -out server.pem"
            .into(),
    ] {
        let Ok(made) = Command::new("openssl").args(line.split(' ')).current_dir(&place).output() else {
            eprintln!("SKIPPED: openssl is not installed: a pusher was NOT tried over TLS");
            return None;
        };
        assert!(made.status.success(), "{line}: {}", String::from_utf8_lossy(&made.stderr));
    }
    Some(place)
}

/// The port, and the first lines of requests and what they bring; says yes to everybody who trusts it.
fn server(place: &Path) -> (u16, Receiver<(String, Vec<u8>)>) {
    let chain = vec![CertificateDer::from_pem_file(place.join("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(place.join("server.key")).unwrap();
    let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream.unwrap());
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) else { continue };
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let _ = sender.send((head.lines().next().unwrap().to_owned(), body));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (port, requests)
}

#[test]
fn only_a_server_that_is_trusted_gets_profiles() {
    let Some(place) = certificates() else { return };
    let (port, requests) = server(&place);
    let options = || {
        // The wall clock: this test waits, and shall have samples.
        let options = PushOptions::new(format!("https://localhost:{port}"), "test").interval(Duration::from_secs(1));
        options.profile(|builder| builder.clock(onstack::Clock::Wall))
    };
    std::env::remove_var("SSL_CERT_DIR");

    std::env::set_var("SSL_CERT_FILE", place.join("none.pem"));
    match Pusher::start(options()) {
        Err(Error::Os(error)) => assert!(error.to_string().contains("no certificate authorities"), "{error}"),
        other => panic!("{other:?}"),
    }

    std::env::set_var("SSL_CERT_FILE", place.join("server.pem")); // signed by nobody
    let events: Arc<Mutex<Vec<(PushOutcome, String)>>> = Arc::default();
    let told = events.clone();
    let note = move |event: &onstack_http::PushEvent| told.lock().unwrap().push((event.outcome, event.error.clone()));
    let pusher = Pusher::start(options().flush_timeout(Duration::from_millis(1)).report(note)).unwrap();
    eventually("not told", || pusher.stats().retries > 0);
    let stats = pusher.stop();
    assert_eq!((stats.sent, stats.dropped + stats.empty), (0, stats.taken), "{stats:?}");
    let (outcome, text) = events.lock().unwrap()[0].clone();
    assert!(outcome == PushOutcome::Retry && text.contains("invalid peer certificate"), "{text}");
    assert!(requests.try_recv().is_err());

    std::env::set_var("SSL_CERT_FILE", place.join("authority.pem"));
    let pusher = Pusher::start(options().report(|event| panic!("{}", event.error))).unwrap();
    eventually("nothing is sent", || pusher.stats().sent > 0);
    pusher.stop();
    let (line, body) = requests.recv().unwrap();
    assert!(line.starts_with("POST /ingest?name=test"));
    pprof::read(&body);
}
