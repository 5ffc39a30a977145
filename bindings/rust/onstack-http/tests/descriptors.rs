// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process whose descriptors run out while it is asked for a profile. Alone in its program: the limit is the process's.
#![cfg(all(feature = "axum", feature = "hyper"))]

mod common;
#[path = "common/service.rs"]
mod service;

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;

use common::{eventually, threads};
use onstack_http::Handler;
use service::{get, read, serve, Burning};

#[test]
fn a_request_without_descriptors_has_an_answer_and_the_next_one_its_profile() {
    let _burning = Burning::begin();
    let address = serve(Handler::new());
    get(address, "/?seconds=0.1").profile();
    let mut waiting = TcpStream::connect(address).unwrap();
    // The server has accepted it, as it answers on another one that came later.
    assert_eq!(get(address, "/?seconds=x").status(), 400);

    // SAFETY: sets this process's soft limit, which the hard one allows.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 100, rlim_max: 4096 }) };
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(all.len() > 50);
    write!(waiting, "GET /?seconds=0.1 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let answer = read(waiting);
    // Which of the two it is depends on whether the session needs a descriptor on this kernel.
    assert!(
        answer.status() == 200 || answer.status() == 500 && answer.text().starts_with("onstack: "),
        "{}",
        answer.head
    );
    drop(all);
    get(address, "/?seconds=0.1").profile();
    eventually("threads are left", || threads("onstack") == 0);
}
