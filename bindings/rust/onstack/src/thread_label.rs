// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels of the calling thread, for as long as a value lives.

use std::cell::RefCell;
use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr;

use onstack_sys as sys;

use crate::error::{check, Error, Result};
use crate::labels;

struct Set {
    number: u64,
    key: CString,
    value: CString,
}

thread_local! {
    /// What this thread has set and not yet dropped, in the order of setting.
    static SETS: RefCell<(u64, Vec<Set>)> = const { RefCell::new((0, Vec::new())) };
}

/// A label that samples of this thread carry until this is dropped; from [`thread_label`].
#[derive(Debug)]
#[must_use = "the label goes when this value is dropped"]
pub struct ThreadLabel {
    number: u64,
    // It is of the thread that made it.
    _not_send: PhantomData<*const ()>,
}

/// Gives the calling thread a label, as what it is for: from now on its samples carry it, behind those of
/// [`label`](crate::label). An inner label of the same key hides the outer one, which comes back when the inner one is dropped.
///
/// Costs allocations. For requests and tasks, which change threads where they await, there is
/// [`with_labels`](crate::label::FutureExt::with_labels).
///
/// ```
/// let _label = onstack::thread_label("pool", "index")?;
/// // ... work of that pool ...
/// # Ok::<(), onstack::Error>(())
/// ```
///
/// # Errors
/// [`Error::Options`](crate::Error::Options) for a [key](crate::label#keys) or a value that cannot be, and for more than 4 KiB of
/// labels; an error of the system where memory runs out. Nothing is changed then.
pub fn thread_label(key: &str, value: &str) -> Result<ThreadLabel> {
    labels::check(key, value)?;
    let text = |text: &str| CString::new(text).expect("a NUL was looked for");
    let (key, value) = (text(key), text(value));
    // SAFETY: both strings live during the call, which copies them.
    check(unsafe { sys::onstack_thread_label_set(key.as_ptr(), value.as_ptr()) }).map_err(|error| match error {
        Error::Options(_) => {
            Error::Options(format!("label {key:?}: with it the thread's labels take more than 4,096 bytes"))
        }
        other => other,
    })?;
    let number = SETS.with_borrow_mut(|(last, sets)| {
        *last += 1;
        sets.push(Set { number: *last, key, value });
        *last
    });
    Ok(ThreadLabel { number, _not_send: PhantomData })
}

impl Drop for ThreadLabel {
    fn drop(&mut self) {
        // While the thread ends its labels may be gone already, those of the core with it.
        let _ = SETS.try_with(|sets| {
            let (_, sets) = &mut *sets.borrow_mut();
            let Some(place) = sets.iter().position(|set| set.number == self.number) else { return };
            let gone = sets.remove(place);
            let outer = sets.iter().rev().find(|set| set.key == gone.key);
            let value = outer.map_or(ptr::null(), |set| set.value.as_ptr());
            // SAFETY: both strings live during the call. Without memory the label stays, which harms nobody.
            unsafe { sys::onstack_thread_label_set(gone.key.as_ptr(), value) };
        });
    }
}
