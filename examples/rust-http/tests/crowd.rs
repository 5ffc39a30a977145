// SPDX-License-Identifier: MIT OR Apache-2.0
//! More peers than the service has room for, and than it has descriptors for: it is still there when they have gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Service {
    process: Child,
    address: String,
}

/// With that many descriptors.
fn service(descriptors: u32) -> Service {
    let limited = format!("ulimit -n {descriptors}; exec \"$0\" 127.0.0.1:0");
    let mut process = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_rust-http")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let address = said.trim().rsplit('/').next().unwrap().to_owned();
    Service { process, address }
}

impl Service {
    fn peers(&self, count: usize) -> Vec<TcpStream> {
        let peer = |_| TcpStream::connect(&self.address).unwrap();
        (0..count).map(peer).collect()
    }

    /// What it answers, as far as it comes.
    fn ask(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = write!(stream, "GET /elsewhere HTTP/1.1\r\n\r\n");
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn comes_to_say(&mut self, status: &str) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !self.ask().starts_with(&format!("HTTP/1.1 {status}")) {
            assert_eq!(self.process.try_wait().unwrap(), None, "it has ended");
            assert!(Instant::now() < limit, "no {status} within a minute");
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

#[test]
fn those_on_top_are_sent_away() {
    let mut service = service(1000);
    let limit = Instant::now() + Duration::from_secs(60);
    // They are given up after ten seconds, which a busy machine may take to get here.
    while {
        let _peers = service.peers(64);
        !service.ask().starts_with("HTTP/1.1 503")
    } {
        assert!(Instant::now() < limit, "no 503 within a minute");
    }
    service.comes_to_say("404");
}

#[test]
fn descriptors_that_run_out_do_not_end_it() {
    let mut service = service(20);
    let peers = service.peers(40);
    std::thread::sleep(Duration::from_millis(300));
    drop(peers);
    service.comes_to_say("404");
}
