// SPDX-License-Identifier: MIT OR Apache-2.0
//! `onstack push` over TLS: a server is trusted because of the authority that SSL_CERT_FILE names, and only then.
#![cfg(feature = "push")]

mod pprof;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::{self, Receiver};
use std::sync::Arc;
use std::thread;

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
            eprintln!("SKIPPED: openssl is not installed: `onstack push` was NOT tried over TLS");
            return None;
        };
        assert!(made.status.success(), "{line}: {}", String::from_utf8_lossy(&made.stderr));
    }
    Some(place)
}

/// The head, and what google/pprof says of the body.
type Request = (String, Option<Result<(), String>>);

/// Says yes to everybody who trusts it; the port, and the requests.
fn server(place: &Path) -> (u16, Receiver<Request>) {
    let chain = vec![CertificateDer::from_pem_file(place.join("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(place.join("server.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let config = Arc::new(config);
    pprof::prepare();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream.unwrap());
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            if head.is_empty() {
                continue;
            }
            let head = String::from_utf8(head).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let _ = sender.send((head, pprof::check(&body)));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (port, requests)
}

fn push(url: &str, authorities: &Path, file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onstack"));
    command.args(["push", "--name", "app", "--url", url]).arg(file);
    for name in ["https_proxy", "all_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.env("SSL_CERT_FILE", authorities).env_remove("SSL_CERT_DIR").output().expect("the program runs")
}

#[test]
fn only_a_server_that_is_trusted_gets_the_profile() {
    let Some(place) = certificates() else { return };
    let (port, requests) = server(&place);
    let profile = place.join("profile.pb.gz");
    let mut bytes = Vec::new();
    onstack_profile::Profile::from_folded("main;hot 6\n").unwrap().write_pprof(&mut bytes).unwrap();
    fs::write(&profile, bytes).unwrap();

    let url = format!("https://localhost:{port}");
    let output = push(&url, &place.join("authority.pem"), &profile);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (head, verdict) = requests.try_recv().unwrap();
    assert!(head.starts_with("POST /ingest?name=app"));
    assert_eq!(verdict.unwrap_or(Ok(())), Ok(()));

    let other = url.replace("localhost", "127.0.0.1");
    // Signed by nobody; the right authority for another name; no authority at all.
    for (url, authorities, why) in [
        (&url, "server.pem", "invalid peer certificate"),
        (&other, "authority.pem", "not valid for name"),
        (&url, "none.pem", "no certificate authorities"),
    ] {
        let output = push(url, &place.join(authorities), &profile);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        // More tries would not help.
        assert!(message.contains(why) && !message.contains("retry"), "{message}");
    }
    assert!(requests.try_recv().is_err());
}
