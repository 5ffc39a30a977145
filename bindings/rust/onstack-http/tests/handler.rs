// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handler as clients meet it: real sessions, over loopback, under hyper and axum.
#![cfg(all(feature = "axum", feature = "hyper"))]

mod common;
#[path = "common/service.rs"]
mod service;

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{eventually, threads};
use onstack::{Clock, ProfilerGuard, ProfilerGuardBuilder};
use onstack_http::{Error, Handler, HandlerOptions, PATHS, THREADS_PATH};
use onstack_profile::Profile;
use service::{alone, ask, get, read, serve, serve_axum, Burning};

fn period(profile: &Profile) -> Duration {
    Duration::from_nanos(profile.message().period as u64)
}

#[test]
fn a_profile_shows_the_work() {
    let _alone = alone();
    let _burning = Burning::begin();
    let handler = Handler::new();
    for (address, path) in
        [(serve(handler.clone()), "/any/path"), (serve_axum(&handler), PATHS[0]), (serve_axum(&handler), PATHS[1])]
    {
        let answer = get(address, &format!("{path}?seconds=0.8&hz=200"));
        let profile = answer.profile();
        for (name, value) in [
            ("content-type", "application/octet-stream"),
            ("x-content-type-options", "nosniff"),
            ("content-disposition", "attachment; filename=\"profile.pb.gz\""),
            ("content-length", &answer.body.len().to_string()),
        ] {
            assert_eq!(answer.header(name), Some(value), "{}", answer.head);
        }
        assert!(answer.body.starts_with(&[0x1f, 0x8b]), "no gzip");
        assert_eq!(period(&profile), Duration::from_millis(5));
        let top = profile.top();
        assert!(top.entries.iter().any(|entry| entry.name.ends_with("burn_of_the_test")), "{top}");
    }
    let address = serve_axum(&handler);
    assert_eq!(get(address, "/work").text(), "done");
    assert_eq!(get(address, "/debug/pprof/heap").status(), 404);
    eventually("threads are left", || threads("onstack") == 0);
}

#[test]
fn all_threads_say_what_they_do() {
    let _alone = alone();
    let _burning = Burning::begin();
    let waits = thread::Builder::new().name("naps".into()).spawn(|| thread::sleep(Duration::from_secs(2))).unwrap();
    let address = serve_axum(&Handler::new());
    let text = get(address, &format!("{THREADS_PATH}?debug=1"));
    assert_eq!((text.status(), text.header("content-type")), (200, Some("text/plain; charset=utf-8")), "{}", text.head);
    for part in ["naps", "clock_nanosleep", "burn_of_the_test"] {
        assert!(text.text().contains(part), "{part} is not in\n{}", text.text());
    }
    let answer = get(address, THREADS_PATH);
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"threads.pb.gz\""), "{}", answer.head);
    let profile = answer.profile();
    assert!(profile.stacks().iter().any(|(stack, _)| stack.iter().any(|name| name.ends_with("burn_of_the_test"))));
    assert_eq!(read(ask(address, "POST", THREADS_PATH)).status(), 405);
    waits.join().unwrap();
    eventually("threads are left", || threads("onstack") == 0);
}

#[test]
fn other_methods_are_refused() {
    let address = serve(Handler::new());
    let answer = read(ask(address, "POST", "/?seconds=1"));
    assert_eq!((answer.status(), answer.header("allow"), answer.text()), (405, Some("GET"), "onstack: use GET\n"));
}

#[test]
fn options_are_the_default_and_the_limit() {
    let _alone = alone();
    let _burning = Burning::begin(); // a profile without samples says nothing of its rate
    let options = || HandlerOptions::new().max_duration(Duration::from_millis(300)).max_rate(50).max_concurrent(1);
    let address = serve(Handler::with(options()).unwrap());
    for query in ["?seconds=0.4", "?hz=51"] {
        assert_eq!(get(address, query).status(), 400, "{query}");
    }
    // What a request leaves out is within the limits too, and the program may say more than requests may.
    let limited = get(address, "/").profile();
    assert_eq!(period(&limited), Duration::from_millis(20));
    let program = serve(Handler::with(options().profile(|builder| builder.frequency(200))).unwrap());
    let wide = get(program, "/").profile();
    assert_eq!(period(&wide), Duration::from_millis(5));
    // What a program says that cannot be is told to whoever asks.
    let wrong = serve(Handler::with(options().profile(|builder| builder.frequency(20_000))).unwrap());
    let answer = get(wrong, "/");
    assert!(answer.status() == 400 && answer.text().starts_with("onstack: "), "{}", answer.text());
    assert!(matches!(Handler::with(options().max_rate(0)), Err(Error::Option { .. })));
}

#[test]
fn the_wall_clock_shows_what_waits() {
    let _alone = alone();
    let address = serve(Handler::new());
    let profile = get(address, "/?seconds=0.5&clock=wall").profile();
    assert!(profile.top().total > 0, "nothing waits");
    assert_eq!(period(&profile), Duration::from_millis(50));
    assert_eq!(profile.top().unit, "nanoseconds");
    let kinds = profile.message();
    let last = kinds.sample_type.last().unwrap().r#type;
    assert_eq!(kinds.string_table[last as usize], "wall");
}

/// Clients that ask for profiles of a minute and wait.
fn clients(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let clients = (0..count).map(|_| ask(address, "GET", "/?seconds=60")).collect();
    eventually("not all clients are profiled", || threads("onstack-http") == count);
    clients
}

fn go(clients: Vec<TcpStream>) {
    clients.iter().for_each(|client| client.shutdown(Shutdown::Both).unwrap());
    eventually("profiles of clients that have gone go on", || threads("onstack") == 0);
}

/// Whatever clients ask for, over however many handlers, the process can profile itself.
#[test]
fn clients_leave_sessions_to_the_process() {
    let _alone = alone();
    let (address, other) = (serve(Handler::new()), serve(Handler::new()));
    let waiting = clients(address, 4);
    for address in [address, other] {
        let answer = get(address, "/?seconds=1");
        let text = "onstack: 4 profiles are being taken over HTTP already: ask again when they are done, or raise \
                    HandlerOptions::max_concurrent\n";
        assert_eq!((answer.status(), answer.text()), (429, text));
        let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&after), "{after}");
    }
    let own: Vec<_> = (0..4).map(|_| ProfilerGuard::new(99).unwrap()).collect();
    assert!(own.iter().all(|guard| guard.stop().is_ok()));
    drop(own);
    go(waiting);
    eventually("clients that have gone still count", || get(other, "/?seconds=0.1").status() == 200);
}

#[test]
fn a_process_that_has_all_sessions_says_so() {
    let _alone = alone();
    let _own: Vec<_> = (0..8).map(|_| ProfilerGuard::new(99).unwrap()).collect();
    let address = serve(Handler::new());
    let answer = get(address, "/?seconds=1");
    assert!(answer.status() == 503 && answer.text().starts_with("onstack: "), "{}", answer.text());
    // The refused one does not count.
    assert_eq!(answer.header("retry-after"), Some("31"));
}

const LABELLED: usize = 200;

/// Threads that wait, each with a label of 4,000 letters that do not compress well.
struct Labelled(Arc<Barrier>, Vec<JoinHandle<()>>);

impl Labelled {
    fn begin() -> Self {
        let all = Arc::new(Barrier::new(LABELLED + 1));
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut letter = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'0' + (state >> 32) as u8 % 64)
        };
        let threads = (0..LABELLED).map(|_| {
            let label: String = (0..4000).map(|_| letter()).collect();
            let all = all.clone();
            thread::spawn(move || {
                let _label = onstack::thread_label("large", &label).unwrap();
                all.wait(); // each has its label
                all.wait(); // the test is over
            })
        });
        let threads = threads.collect();
        all.wait();
        Self(all, threads)
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        self.0.wait();
        self.1.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Profiles of waiting threads with their labels, one at a time.
fn serve_large_profiles() -> SocketAddr {
    let options = HandlerOptions::new().max_concurrent(1);
    let large = |builder: ProfilerGuardBuilder| builder.clock(Clock::Wall).label_bytes(4096).buffer_bytes(16 << 20);
    serve(Handler::with(options.profile(large)).unwrap())
}

fn set_small_receive_buffer(stream: &TcpStream) {
    let bytes: libc::c_int = 64 << 10;
    // SAFETY: the descriptor is open, and the option is an int.
    let result = unsafe {
        let (value, length) = (std::ptr::from_ref(&bytes).cast(), size_of_val(&bytes) as libc::socklen_t);
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, value, length)
    };
    assert_eq!(result, 0);
}

fn is_free(address: SocketAddr) -> bool {
    let mut start = [0; 12];
    ask(address, "GET", "/?seconds=0.1").read_exact(&mut start).unwrap();
    start.ends_with(b"200")
}

/// What a client does not read takes memory, and counts until the client has read it or has gone.
#[test]
fn a_slow_reader_counts() {
    let _alone = alone();
    let _labelled = Labelled::begin();
    let address = serve_large_profiles();
    let slow = ask(address, "GET", "/?seconds=0.5");
    set_small_receive_buffer(&slow);
    eventually("it is not profiled", || threads("onstack-http") == 1);
    eventually("its profile does not end", || threads("onstack") == 0);
    assert!(!is_free(address));
    thread::sleep(Duration::from_millis(200)); // for the server to hand out what the sockets take
    assert!(!is_free(address));
    let answer = read(slow);
    answer.profile();
    assert!(answer.body.len() > 300_000, "{}", answer.body.len());
    // This one goes away in the middle.
    eventually("what was read still counts", || is_free(address));
    eventually("one that has gone still counts", || is_free(address));
}

/// A thousand at once: each gets an answer, and nothing is left.
#[test]
fn a_burst_is_answered() {
    let _alone = alone();
    let address = serve(Handler::new());
    let streams: Vec<_> = (0..1000).map(|_| ask(address, "GET", "/?seconds=0.3")).collect();
    let (mut taken, mut refused) = (0, 0);
    for stream in streams {
        let answer = read(stream);
        match answer.status() {
            200 => {
                answer.profile();
                taken += 1;
            }
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(taken >= 4 && taken + refused == 1000, "{taken} {refused}");
    eventually("threads are left", || threads("onstack") == 0);
    get(address, "/?seconds=0.1").profile();
}
