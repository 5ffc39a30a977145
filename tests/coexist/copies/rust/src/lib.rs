// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust library with the `onstack` crate inside, as a Go program links one: it profiles on its own account.

use std::sync::Mutex;

use onstack::{Options, Session};

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// 0, or 1 with the reason on stderr.
#[no_mangle]
pub extern "C" fn coexist_rust_start(hertz: i32) -> i32 {
    match Session::start(Options::new().frequency(hertz), |_| {}) {
        Ok(session) => {
            *SESSION.lock().unwrap() = Some(session);
            0
        }
        Err(error) => {
            eprintln!("the Rust copy: {error}");
            1
        }
    }
}

/// The ticks of the session that ends here; negative for an error.
#[no_mangle]
pub extern "C" fn coexist_rust_stop() -> i64 {
    let Some(session) = SESSION.lock().unwrap().take() else { return -1 };
    match session.stop().and_then(|()| session.stats()) {
        Ok(stats) => stats.ticks as i64,
        Err(_) => -1,
    }
}
