// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calling thread's place for spans.

use std::cell::RefCell;

use onstack_sys as sys;

use super::set::{swap, Labels};

/// What is in the place, and is held as long.
struct Held(Option<Labels>);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: nothing is put there.
        unsafe { swap(sys::ONSTACK_LABELS_SPAN, None) };
    }
}

thread_local! {
    static SPAN: RefCell<Held> = const { RefCell::new(Held(None)) };
}

/// For libraries of spans, as the crate `onstack-tracing`: from now on samples of this thread carry these labels, those of its
/// innermost span, behind the labels of the task. Answers those that were there, which it puts back when the span is left.
///
/// On a thread that ends it does nothing.
pub fn replace_span(labels: Option<Labels>) -> Option<Labels> {
    let replace = |held: &RefCell<Held>| {
        let mut held = held.borrow_mut();
        // SAFETY: it is held until the next call has replaced it, or the thread ends, which takes it out.
        unsafe { swap(sys::ONSTACK_LABELS_SPAN, labels.as_ref()) };
        std::mem::replace(&mut held.0, labels)
    };
    SPAN.try_with(replace).unwrap_or_default()
}
