// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service as a scraper meets it.

#[path = "../../../bindings/rust/onstack-cli/tests/pprof/mod.rs"]
#[rustfmt::skip] // its own workspace has other widths
mod pprof;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use onstack_profile::Profile;

fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || rust_http::serve(listener).unwrap());
    address
}

/// Head and body.
fn get(address: SocketAddr, target: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    (
        String::from_utf8(bytes[..end].to_vec()).unwrap(),
        bytes[end..].to_vec(),
    )
}

fn profile(address: SocketAddr, target: &str) -> Profile {
    let (head, body) = get(address, target);
    assert!(
        head.starts_with("HTTP/1.1 200"),
        "{head}{}",
        String::from_utf8_lossy(&body)
    );
    assert!(body.starts_with(&[0x1f, 0x8b]), "a scraper expects gzip");
    pprof::read(&body)
}

#[test]
fn profiles_show_the_work_and_deltas_are_disjoint() {
    let address = serve();
    let over = Arc::new(AtomicBool::new(false));
    let asked = over.clone();
    let load = thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            assert_eq!(get(address, "/work").1, b"17984\n");
        }
    });
    let started = Instant::now();
    let two = thread::spawn(move || profile(address, "/debug/pprof/profile?seconds=2&hz=199"));
    let one = profile(address, "/debug/pprof/profile?seconds=2");
    let deltas = [
        profile(address, "/debug/pprof/delta"),
        profile(address, "/debug/pprof/delta"),
    ];
    for profile in [&one, &two.join().unwrap(), &deltas[0]] {
        let top = profile.top();
        let work = top
            .entries
            .iter()
            .find(|entry| entry.name.ends_with("work::primes_below"))
            .map_or(0, |e| e.cum);
        // The background session has 19 Hz: a dozen samples, which scatter.
        assert!(top.share(work) > 0.3, "{top}");
        assert!(
            profile
                .summary()
                .threads
                .iter()
                .any(|(name, _)| name == "request"),
            "{}",
            profile.summary()
        );
    }
    // The second one has only what came after the first.
    assert!(deltas[1].start().unwrap() >= deltas[0].start().unwrap() + Duration::from_secs(1));
    assert!(deltas[1].top().total < deltas[0].top().total);
    assert!(started.elapsed() < Duration::from_secs(60));
    over.store(true, Ordering::Relaxed);
    load.join().unwrap();
}

#[test]
fn wrong_requests_have_an_answer() {
    let address = serve();
    for (target, status) in [
        ("/debug/pprof/profile?seconds=0", "400"),
        ("/debug/pprof/profile?seconds=x", "400"),
        ("/debug/pprof/profile?seconds=1&hz=10001", "400"),
        ("/elsewhere", "404"),
    ] {
        let (head, body) = get(address, target);
        assert!(
            head.contains(status) && !body.is_empty(),
            "{target}: {head}"
        );
    }
}
