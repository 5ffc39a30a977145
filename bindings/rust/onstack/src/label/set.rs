// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of labels, and the calling thread's place for them.

use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::{fmt, slice, str};

use onstack_sys as sys;

use crate::error::{check, Error, Result};
use crate::labels;

/// A set of labels, which never changes. Cloning it takes a count; it may be used on any thread.
pub struct Labels(NonNull<sys::onstack_labels>);

// SAFETY: the set is never written, and the count of those who hold it is atomic.
unsafe impl Send for Labels {}
// SAFETY: as above.
unsafe impl Sync for Labels {}

impl Labels {
    /// A set of these labels; of those with one key the last counts.
    ///
    /// # Errors
    /// [`Error::Options`] for a [key](crate::label#keys) or a value that cannot be, and for too many bytes; an error of the
    /// system where memory runs out.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(labels: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let text = |text: &str| CString::new(text).expect("a NUL was looked for");
        let pair = |(key, value): (K, V)| {
            labels::check(key.as_ref(), value.as_ref())?;
            Ok((text(key.as_ref()), text(value.as_ref())))
        };
        let pairs = labels.into_iter().map(pair).collect::<Result<Vec<_>>>()?;
        let bytes: usize = pairs.iter().map(|(key, value)| key.as_bytes().len() + value.as_bytes().len() + 2).sum();
        if bytes > sys::ONSTACK_MAX_LABEL_BYTES as usize {
            return Err(Error::Options(format!("labels: they take {bytes} bytes, and 4,096 is the most")));
        }
        let raw = |(key, value): &(CString, CString)| sys::onstack_label { key: key.as_ptr(), value: value.as_ptr() };
        let raw: Vec<_> = pairs.iter().map(raw).collect();
        let mut set = ptr::null_mut();
        // SAFETY: the strings live during the call, which copies them.
        check(unsafe { sys::onstack_labels_new(raw.as_ptr(), raw.len(), &mut set) })?;
        Ok(Self(NonNull::new(set).expect("a call that succeeds gives a set")))
    }

    /// These labels, and those of `outer` under other keys. What of `outer` has no room is left out, and samples say so
    /// ([`Sample::labels_were_cut`](crate::Sample::labels_were_cut)).
    ///
    /// # Errors
    /// Only where memory runs out.
    pub fn over(&self, outer: &Self) -> Result<Self> {
        let mut set = ptr::null_mut();
        // SAFETY: both sets are held.
        check(unsafe { sys::onstack_labels_merge(self.0.as_ptr(), outer.0.as_ptr(), &mut set) })?;
        Ok(Self(NonNull::new(set).expect("a call that succeeds gives a set")))
    }

    /// Runs `work`, and samples of this thread carry these labels meanwhile, and the outer ones under other keys. Inside an
    /// outer scope, or a future [with labels](crate::label::FutureExt::with_labels), it allocates.
    pub fn scope<R>(&self, work: impl FnOnce() -> R) -> R {
        let mut nested = None;
        let _entered = Entered::new(self, &mut nested);
        work()
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut bytes = 0;
        // SAFETY: the set is held, as long as the answer lives.
        let text = unsafe {
            let text = sys::onstack_labels_text(self.0.as_ptr(), &mut bytes);
            slice::from_raw_parts(text.cast::<u8>(), bytes as usize)
        };
        let text = str::from_utf8(text).expect("they were texts of Rust");
        let mut texts = text.strip_suffix('\0').map(|texts| texts.split('\0'));
        std::iter::from_fn(move || {
            let texts = texts.as_mut()?;
            Some((texts.next()?, texts.next()?))
        })
    }
}

impl Clone for Labels {
    fn clone(&self) -> Self {
        // SAFETY: the set is held.
        unsafe { sys::onstack_labels_retain(self.0.as_ptr()) };
        Self(self.0)
    }
}

impl Drop for Labels {
    fn drop(&mut self) {
        // SAFETY: the set was held by this value, which goes.
        unsafe { sys::onstack_labels_release(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Two are equal that have the same labels in the same order.
impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.iter().eq(other.iter())
    }
}

impl Eq for Labels {}

/// Puts a set into a place of the calling thread. A thread that cannot have labels, as it ends or as there are too many, goes on
/// without.
///
/// # Safety
/// The set is held until it is out of the place again.
pub(super) unsafe fn swap(place: u32, set: Option<&Labels>) {
    let set = set.map_or(ptr::null(), |set| set.0.as_ptr().cast_const());
    // SAFETY: the caller holds the set.
    unsafe { sys::onstack_thread_labels_swap(place, set, ptr::null_mut()) };
}

/// What an inner set has become in an outer one: made once as long as that is the same.
pub(super) struct Nested {
    outer: Labels,
    both: Labels,
}

/// The calling thread has a set in its place for tasks until this is dropped, by the function that made it: only so do scopes
/// end in the order in which they lie on the stack.
pub(super) struct Entered<'a> {
    before: *const sys::onstack_labels,
    // What is in the place is one of these, and the place is the thread's that made it.
    _held: PhantomData<(&'a Labels, &'a Option<Nested>, *const ())>,
}

impl<'a> Entered<'a> {
    pub(super) fn new(labels: &'a Labels, nested: &'a mut Option<Nested>) -> Self {
        // SAFETY: it asks and changes nothing.
        let before = unsafe { sys::onstack_thread_labels_get(sys::ONSTACK_LABELS_TASK) };
        let set = match NonNull::new(before.cast_mut()) {
            Some(outer) if outer != labels.0 => Self::nest(labels, outer, nested),
            _ => labels,
        };
        // SAFETY: the set is borrowed as long as this value lives, whose drop takes it out.
        unsafe { swap(sys::ONSTACK_LABELS_TASK, Some(set)) };
        Self { before, _held: PhantomData }
    }

    /// What goes into the place, made before it goes there: no sample has the inner labels alone, but where memory runs out.
    #[cold]
    fn nest(labels: &'a Labels, outer: NonNull<sys::onstack_labels>, nested: &'a mut Option<Nested>) -> &'a Labels {
        if !matches!(nested, Some(known) if known.outer.0 == outer) {
            // SAFETY: who has put it there holds it at least until control is back there, which is after this call.
            unsafe { sys::onstack_labels_retain(outer.as_ptr()) };
            let outer = Labels(outer);
            let Ok(both) = labels.over(&outer) else { return labels };
            *nested = Some(Nested { outer, both });
        }
        nested.as_ref().map_or(labels, |known| &known.both)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: who has put it there holds it still, being further down on the stack.
        unsafe { sys::onstack_thread_labels_swap(sys::ONSTACK_LABELS_TASK, self.before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_what_was_given_and_debug_shows_it() {
        let labels = Labels::new([("http.route", "/x"), ("db-name", "a"), ("empty", ""), ("db-name", "ä")]).unwrap();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("http.route", "/x"), ("empty", ""), ("db-name", "ä")]);
        assert_eq!(format!("{labels:?}"), r#"{"http.route": "/x", "empty": "", "db-name": "ä"}"#);
        assert_eq!(Labels::new([("", ""); 0]).unwrap().iter().count(), 0);
        let both = Labels::new([("empty", "no")]).unwrap().over(&labels).unwrap();
        assert_eq!(both.iter().collect::<Vec<_>>(), [("empty", "no"), ("http.route", "/x"), ("db-name", "ä")]);
        assert_ne!(both, labels);
        assert_eq!(labels.clone(), labels);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        for (key, value) in [("", "x"), ("a b", "x"), ("thread", "x"), ("key", "x\0y")] {
            match Labels::new([("fine", "x"), (key, value)]) {
                Err(Error::Options(text)) => assert!(text.starts_with(&format!("label {key:?}")), "{text}"),
                other => panic!("{other:?}"),
            }
        }
        let long = "x".repeat(4096);
        let error = Labels::new([("long", &long)]).unwrap_err();
        assert_eq!(error.to_string(), "labels: they take 4102 bytes, and 4,096 is the most");
    }
}
