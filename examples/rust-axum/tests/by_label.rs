// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile says of each route and each task what the service's own clocks say.

#[path = "../../../bindings/rust/onstack-cli/tests/pprof/mod.rs"]
#[rustfmt::skip] // its own workspace has other widths
mod pprof;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use onstack::ProfilerGuardBuilder;
use onstack_profile::{Profile, Profiled};
use rust_axum::CpuClocks;

const ROUTES: [&str; 2] = ["/blocking/{limit}", "/primes/{limit}"];
const TASKS: [&str; 2] = ["compact", "report"];
/// Of each, in a round: at 250 Hz some thousand samples.
const ROUND: Duration = Duration::from_secs(4);
/// A share that profiles and clocks may differ by. Chance makes less of it with each round, and a mistake does not.
const NEAR: f64 = 0.03;
const ROUNDS: usize = 8;

/// Each test has the processors for itself.
static ALONE: Mutex<()> = Mutex::new(());

struct Service {
    address: SocketAddr,
    runtime: tokio::runtime::Runtime,
    over: Arc<AtomicBool>,
    clients: Vec<thread::JoinHandle<()>>,
}

impl Service {
    /// With two clients, one a route.
    fn start(clocks: CpuClocks) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(3)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let serving = rust_axum::serve(listener, clocks);
        runtime.spawn(async { serving.await.unwrap() });
        let over = Arc::new(AtomicBool::new(false));
        let client = |target: &'static str| {
            let over = over.clone();
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    get(address, target);
                }
            })
        };
        let clients = ["/primes/400000", "/blocking/300000"].map(client).into();
        Self {
            address,
            runtime,
            over,
            clients,
        }
    }

    /// When it returns, nothing of the service runs.
    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        drop(self.runtime);
    }
}

fn get(address: SocketAddr, target: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert!(
        bytes.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&bytes)
    );
    bytes
}

fn seconds_by(profile: &Profile, key: &str) -> BTreeMap<String, f64> {
    let values = profile.by_label(key).values.into_iter();
    values
        .filter_map(|(value, sum)| Some((value?, sum as f64 / 1e9)))
        .collect()
}

/// Profile and clocks begin before the work and end behind it.
fn round(clocks: &CpuClocks) -> Profile {
    let guard = ProfilerGuardBuilder::default()
        .frequency(250)
        .build()
        .unwrap();
    let service = Service::start(clocks.clone());
    let before = clocks.read();
    let enough = |name: &&str| {
        let used =
            |clocks: &BTreeMap<String, Duration>| clocks.get(*name).copied().unwrap_or_default();
        used(&clocks.read()) - used(&before) >= ROUND
    };
    while !ROUTES.iter().chain(&TASKS).all(enough) {
        thread::sleep(Duration::from_millis(100));
    }
    service.end();
    guard.stop().unwrap();
    guard.profile().unwrap()
}

#[test]
fn routes_and_tasks_have_what_their_clocks_say() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let clocks = CpuClocks::default();
    let mut profiled: BTreeMap<String, f64> = BTreeMap::new();
    for last in (0..ROUNDS).rev() {
        let profile = round(&clocks);
        let (by_route, by_task) = (
            seconds_by(&profile, "http.route"),
            seconds_by(&profile, "task"),
        );
        assert_eq!(by_route.keys().collect::<Vec<_>>(), ROUTES);
        assert_eq!(by_task.keys().collect::<Vec<_>>(), TASKS);
        for (name, seconds) in by_route.into_iter().chain(by_task) {
            *profiled.entry(name).or_default() += seconds;
        }
        let (mut near, clocked) = (true, clocks.read());
        for (name, profiled) in &profiled {
            let clocked = clocked[name].as_secs_f64();
            let difference = profiled / clocked - 1.0;
            near &= difference.abs() < NEAR;
            let percent = difference * 100.0;
            println!("{name:20} {profiled:7.3} s in profiles, {clocked:7.3} s by the clocks: {percent:+.2} %");
        }
        if near {
            return;
        }
        assert!(
            last > 0,
            "after {ROUNDS} rounds profiles and clocks differ by more than 3 %"
        );
    }
}

/// As a person or a scraper asks for it.
#[test]
fn the_served_profile_has_the_labels() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let service = Service::start(CpuClocks::default());
    // A busy machine may leave some of them without a sample in a second.
    for last in (0..20).rev() {
        let answer = get(service.address, "/debug/pprof/profile?seconds=1&hz=250");
        let body = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap()
            + 4;
        let profile = pprof::read(&answer[body..]);
        let (by_route, by_task) = (
            seconds_by(&profile, "http.route"),
            seconds_by(&profile, "task"),
        );
        if by_route.keys().eq(ROUTES) && by_task.keys().eq(TASKS) {
            break;
        }
        assert!(last > 0, "{by_route:?} {by_task:?}");
    }
    service.end();
}
