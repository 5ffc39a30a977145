/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack: labels that a thread's samples carry, such as the request that it works on.
 * onstack/onstack.h explains the terms, the contexts and the results; onstack_labels(3) has an example.
 *
 * A session with options.label_bytes copies labels into each sample in this order: those of the interrupted goroutine
 * (pprof.Do), of the set in ONSTACK_LABELS_TASK, of the set in ONSTACK_LABELS_SPAN, and of onstack_thread_label_set. If a key
 * occurs twice, the first label counts.
 *
 * A key matches [a-zA-Z_][a-zA-Z0-9_./-]* and is not "thread" or "thread_id". A value is any text without a NUL. The labels of
 * a set, with a NUL after each key and value, take at most ONSTACK_MAX_LABEL_BYTES.
 */
#ifndef ONSTACK_LABELS_H
#define ONSTACK_LABELS_H

#include "onstack/onstack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sets of labels ----------------------------------------------------------------------------------------- */

typedef struct onstack_label {
  const char *key;
  const char *value;
} onstack_label;

/* An immutable set of labels with a count of its references. */
typedef struct onstack_labels onstack_labels;

/*
 * Creates a set of `count` labels and copies their strings. If a key occurs twice, the last label counts.
 * Context: any thread.
 * Ownership: *out has one reference, the caller's. It is NULL on failure.
 * Errors: OPTIONS (NULL, an invalid key, or too long), -ENOMEM.
 */
ONSTACK_API int onstack_labels_new(const onstack_label *labels, size_t count, onstack_labels **out);

/*
 * Creates a set with the labels of `inner`, and with those of `outer` whose key `inner` lacks. Labels of `outer` that find no
 * room are left out; samples then have ONSTACK_SAMPLE_LABELS_CUT.
 * Context: any thread.
 * Ownership: *out has one reference, the caller's.
 * Errors: OPTIONS (NULL), -ENOMEM.
 */
ONSTACK_API int onstack_labels_merge(const onstack_labels *inner, const onstack_labels *outer, onstack_labels **out);

/* Takes a reference. Ignores NULL. Context: any thread. */
ONSTACK_API void onstack_labels_retain(const onstack_labels *labels);
/* Drops a reference; the last one frees the set. Ignores NULL. Context: any thread. */
ONSTACK_API void onstack_labels_release(const onstack_labels *labels);

/*
 * Returns the labels as samples have them: NUL-terminated strings, key and value in turn, *bytes in all.
 * Context: any thread.
 * Ownership: the text is valid as long as the set.
 */
ONSTACK_API const char *onstack_labels_text(const onstack_labels *labels, uint32_t *bytes);

/* ---- labels of the calling thread --------------------------------------------------------------------------- */

/* Each thread has two places for a set, so that a tracing library need not know the host's tasks. */
#define ONSTACK_LABELS_TASK 0 /* the host's request or task */
#define ONSTACK_LABELS_SPAN 1 /* a tracing library's innermost span */
#define ONSTACK_LABELS_PLACES 2

/*
 * Puts a set into a place of the calling thread, or empties the place if `labels` is NULL. *before receives the previous set,
 * for a second swap when the work ends; `before` may be NULL.
 * It takes a few nanoseconds, except a thread's first call, which allocates.
 * A new thread's places are empty. A forked child keeps those of the forking thread.
 * Context: any thread that libc created, whether a session runs or not; not a signal handler.
 * Ownership: no reference is taken. Keep `labels` alive until you swap it out.
 * Errors: OPTIONS (no such place), -ENOMEM (also if more than 16,384 threads have labels), CONTEXT (the thread is ending, after
 *   the destructor of the library's thread key), UNSUPPORTED. Nothing changes then, and *before is NULL.
 */
ONSTACK_API int onstack_thread_labels_swap(uint32_t place, const onstack_labels *labels, const onstack_labels **before);

/*
 * Returns the set in a place of the calling thread, or NULL. To add labels, merge a new set with this one and swap it in.
 * Context: as onstack_thread_labels_swap.
 * Ownership: the set belongs to the code that put it there.
 */
ONSTACK_API const onstack_labels *onstack_thread_labels_get(uint32_t place);

/*
 * Gives the calling thread a label of its own, or removes it if `value` is NULL. It allocates, and copies the strings. The
 * label ends with the thread; a forked child keeps the forking thread's.
 * Context: as onstack_thread_labels_swap.
 * Errors: OPTIONS (an invalid key, or too long), -ENOMEM, CONTEXT, UNSUPPORTED, as onstack_thread_labels_swap.
 */
ONSTACK_API int onstack_thread_label_set(const char *key, const char *value);

/* Removes the calling thread's own labels. Context: as onstack_thread_labels_swap. */
ONSTACK_API void onstack_thread_labels_clear(void);

/* ---- experimental: OpenTelemetry ---------------------------------------------------------------------------- */

/*
 * Turns the labels trace_id and span_id on (ONSTACK_ON) or off for the whole process. They come from the thread-local variable
 * otel_thread_ctx_v1, in which an OpenTelemetry library publishes the span of a thread (OTEP 4947). A session needs 67 bytes of
 * options.label_bytes for them. A sample takes some microseconds more, and a profile has separate stacks for each span.
 * Context: any thread that libc created.
 * Errors: OPTIONS; UNSUPPORTED if no loaded object has that variable or the libc is unknown. The switch stays on then, and
 *   sessions check again after each load.
 */
ONSTACK_API int onstack_thread_spans_use(onstack_switch use);

#ifdef __cplusplus
}
#endif

#endif /* ONSTACK_LABELS_H */
