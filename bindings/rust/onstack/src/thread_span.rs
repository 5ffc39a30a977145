// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans that an OpenTelemetry library publishes for threads.

use onstack_sys as sys;

use crate::error::{check, Result};
use crate::options::switch;

/// Turns on or off that samples name the span of their thread, where an OpenTelemetry library publishes it in the thread-local
/// pointer `otel_thread_ctx_v1` (OTEP 4947): as labels `trace_id` and `span_id`, which become links in OpenTelemetry's form.
/// For the whole process, and experimental. A sample takes some microseconds more then, and each span has stacks of its own.
///
/// # Errors
/// [`Error::Unsupported`](crate::Error::Unsupported) when no object that is loaded has that symbol as yet; it stays on, and profilers
/// that run look again whenever something is loaded.
pub fn thread_spans(on: bool) -> Result<()> {
    // SAFETY: it may be called from any thread of libc's.
    check(unsafe { sys::onstack_thread_spans_use(switch(Some(on))) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::thread_spans;
    use crate::Error;

    #[test]
    fn there_are_none_here() {
        assert!(matches!(thread_spans(true), Err(Error::Unsupported)));
        thread_spans(false).unwrap();
    }
}
