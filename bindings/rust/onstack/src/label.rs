// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the program works for: labels of requests, tasks and threads, in its samples.
//!
//! A [`Labels`] is built once. Samples carry it while a [future](FutureExt::with_labels) is polled, wherever that is, or while
//! a [closure](Labels::scope) runs. That costs a few nanoseconds a poll, and nothing has to profile for it.
//!
//! ```
//! use onstack::label::{FutureExt, Labels};
//!
//! async fn answer(request: u32) -> u32 {
//!     request + 1
//! }
//!
//! # fn spawn<F: std::future::Future<Output = u32> + Send>(_: F) {}
//! let labels = Labels::new([("http.route", "/cart"), ("tenant", "a")])?;
//! spawn(answer(41).with_labels(labels.clone())); // a task of any runtime
//! assert_eq!(labels.scope(|| 41 + 1), 42);
//! # Ok::<(), onstack::Error>(())
//! ```
//!
//! Inner labels add to outer ones, and hide those of the same key. Profiles have them as labels of pprof, in the order goroutine,
//! task, [span](replace_span), [thread](crate::thread_label()); of two with one key the first counts.
//!
//! # Keys
//! A key matches `[a-zA-Z_][a-zA-Z0-9_./-]*`, as `http.route`, and is not `thread` or `thread_id`. A value is any text without a
//! NUL. All labels of a set together take at most 4,096 bytes, and a byte more for each key and value; a sample has room for
//! [`label_bytes`](crate::Options::label_bytes).
//!
//! # Programs of several languages
//! Labels go to profilers of this crate. A profiler of another copy of the library, as a preloaded one, does not see them.

use std::cell::RefCell;
use std::ffi::CString;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};
use std::{fmt, slice, str};

use onstack_sys as sys;
use pin_project_lite::pin_project;

use crate::error::{check, Error, Result};
use crate::options::switch;

/// The core's rule, `[a-zA-Z_][a-zA-Z0-9_./-]*` and none of the threads' own: what OpenTelemetry and users of pprof write.
fn is_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let others = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte));
    first && others && !matches!(key, "thread" | "thread_id")
}

/// What is wrong with a label.
pub(crate) fn check_label(key: &str, value: &str) -> Result<()> {
    if !is_key(key) {
        let rule =
            "give letters, digits and any of `_.-/`, a letter or `_` first, and neither `thread` nor `thread_id`";
        return Err(Error::Options(format!("label {key:?}: {rule}")));
    }
    match value.contains('\0') {
        true => Err(Error::Options(format!("label {key:?}: the value {value:?} has a NUL in it"))),
        false => Ok(()),
    }
}

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
    /// [`Error::Options`] for a [key](self#keys) or a value that cannot be, and for too many bytes; an error of the
    /// system where memory runs out.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(labels: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let text = |text: &str| CString::new(text).expect("a NUL was looked for");
        let pair = |(key, value): (K, V)| {
            check_label(key.as_ref(), value.as_ref())?;
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
    /// outer scope, or a future [with labels](FutureExt::with_labels), it allocates.
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
unsafe fn swap(place: u32, set: Option<&Labels>) {
    let set = set.map_or(ptr::null(), |set| set.0.as_ptr().cast_const());
    // SAFETY: the caller holds the set.
    unsafe { sys::onstack_thread_labels_swap(place, set, ptr::null_mut()) };
}

/// What an inner set has become in an outer one: made once as long as that is the same.
struct Nested {
    outer: Labels,
    both: Labels,
}

/// The calling thread has a set in its place for tasks until this is dropped, by the function that made it: only so do scopes
/// end in the order in which they lie on the stack.
struct Entered<'a> {
    before: *const sys::onstack_labels,
    // What is in the place is one of these, and the place is the thread's that made it.
    _held: PhantomData<(&'a Labels, &'a Option<Nested>, *const ())>,
}

impl<'a> Entered<'a> {
    fn new(labels: &'a Labels, nested: &'a mut Option<Nested>) -> Self {
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

/// Labels for futures.
pub trait FutureExt: Sized {
    /// Samples carry these labels while the future is polled, and while it is dropped, on whatever thread that happens. Inner
    /// ones add to outer ones and hide those of the same key.
    ///
    /// Costs some eleven nanoseconds a poll (`bench/labels.sh`), and a future inside another one with labels allocates when it
    /// is polled first. What is spawned from inside is a task of its own, and has labels if it is given some.
    fn with_labels(self, labels: Labels) -> WithLabels<Self> {
        WithLabels { future: ManuallyDrop::new(self), labels, nested: None }
    }
}

impl<F: Future> FutureExt for F {}

pin_project! {
    /// A future with labels, from [`FutureExt::with_labels`].
    #[must_use = "futures do nothing unless they are polled"]
    pub struct WithLabels<F> {
        #[pin]
        future: ManuallyDrop<F>,
        labels: Labels,
        nested: Option<Nested>,
    }

    impl<F> PinnedDrop for WithLabels<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let _entered = Entered::new(this.labels, this.nested);
            // SAFETY: it stays where it was pinned, and is not used again.
            unsafe { ManuallyDrop::drop(this.future.get_unchecked_mut()) };
        }
    }
}

impl<F: Future> Future for WithLabels<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = Entered::new(this.labels, this.nested);
        // SAFETY: the wrapper is transparent: what is pinned in it is pinned.
        let future = unsafe { this.future.map_unchecked_mut(|future| &mut **future) };
        future.poll(context)
    }
}

impl<F: fmt::Debug> fmt::Debug for WithLabels<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithLabels")
            .field("future", &*self.future)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

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
/// [`label`](self). An inner label of the same key hides the outer one, which comes back when the inner one is dropped.
///
/// Costs allocations. For requests and tasks, which change threads where they await, there is
/// [`with_labels`](FutureExt::with_labels).
///
/// ```
/// let _label = onstack::thread_label("pool", "index")?;
/// // ... work of that pool ...
/// # Ok::<(), onstack::Error>(())
/// ```
///
/// # Errors
/// [`Error::Options`](crate::Error::Options) for a [key](self#keys) or a value that cannot be, and for more than 4 KiB of
/// labels; an error of the system where memory runs out. Nothing is changed then.
pub fn thread_label(key: &str, value: &str) -> Result<ThreadLabel> {
    check_label(key, value)?;
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
    use super::*;

    #[test]
    fn keys_are_those_of_opentelemetry_and_pprof() {
        assert!(["service", "_x", "A9", "service.name", "db-name", "app.io/part"].into_iter().all(is_key));
        assert!(!["", "9a", ".a", "-a", "a b", "a=b", "é", "thread", "thread_id"].into_iter().any(is_key));
    }

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

    #[test]
    fn there_are_none_here() {
        assert!(matches!(thread_spans(true), Err(Error::Unsupported)));
        thread_spans(false).unwrap();
    }
}
