// SPDX-License-Identifier: MIT OR Apache-2.0
//! Services with a handler, over loopback, and clients of theirs.

#![allow(dead_code)] // each test program uses a part

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use hyper_util::rt::TokioIo;
use onstack_http::Handler;
use onstack_profile::Profile;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

use crate::common::pprof;

/// Tests that count sessions or threads, one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(server: impl FnOnce(TcpListener) -> ServerFuture) -> SocketAddr {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    // One thread: a handler that blocks it would stop all else.
    let builder = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let runtime = RUNTIME.get_or_init(builder);
    let listener = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.set_send_buffer_size(16 << 10)?; // connections inherit it, so that a client that does not read is noticed
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket.listen(1024)
    });
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(server(listener));
    address
}

type ServerFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// hyper alone.
pub fn serve(handler: Handler) -> SocketAddr {
    spawn(|listener| {
        Box::pin(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let handler = handler.clone();
                tokio::spawn(async move {
                    // A client that has gone is its own business.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), handler)
                        .await;
                });
            }
        })
    })
}

/// axum, with another route.
pub fn serve_axum(handler: &Handler) -> SocketAddr {
    let app = axum::Router::new().route("/work", axum::routing::get(|| async { "done" })).merge(handler.router());
    spawn(|listener| Box::pin(async move { axum::serve(listener, app).await.unwrap() }))
}

pub struct Answer {
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub fn profile(&self) -> Profile {
        assert_eq!(self.status(), 200, "{}", self.head);
        pprof::read(&self.body)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub fn ask(address: SocketAddr, method: &str, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

pub fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = 4 + bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer");
    Answer { head: String::from_utf8(bytes[..end].to_vec()).unwrap(), body: bytes[end..].to_vec() }
}

pub fn get(address: SocketAddr, target: &str) -> Answer {
    read(ask(address, "GET", target))
}

/// Keeps a processor busy until it is dropped.
pub struct Burning(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Burning {
    pub fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let asked = over.clone();
        let thread = thread::spawn(move || burn_of_the_test(&asked));
        Self(over, Some(thread))
    }
}

impl Drop for Burning {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().unwrap().join().unwrap();
    }
}

#[inline(never)]
fn burn_of_the_test(over: &AtomicBool) {
    let mut x = 1u64;
    while !over.load(Ordering::Relaxed) {
        (0..10_000).for_each(|_| x = std::hint::black_box(x.wrapping_mul(7)));
    }
}
