/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The labels that the application has given to threads, by thread id.
 *
 * Only a thread itself changes its entry (core/sampler/api/labels.c), and only its own handler reads it: a set comes
 * and goes by one store of a pointer. The handler interrupts the thread before or behind that store, so it finds a whole set,
 * which was finished before the store; and behind the store it reads the old one no more, so that the thread may let it go.
 * Both hold in the order of the program, which is the order in which a processor shows its own stores to a handler on it; the
 * compiler keeps it by a release store and a signal fence behind it. No lock, and no thread-local storage, which a raw
 * thread may not have: entries are static, so none can be gone when a handler finds it, whatever became of its thread.
 *
 * An entry is claimed by one compare-and-swap on its thread id and looked for as in the thread table: dense buckets of 16
 * ids, no tombstones, nothing is ever moved.
 */
#ifndef ONSTACK_SAMPLER_LABELS_LABELS_H
#define ONSTACK_SAMPLER_LABELS_LABELS_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "platform/label_set.h"
#include "sampler/unwind/code_map.h"

#define ONSTACK_LABEL_THREADS 16384u
#define ONSTACK_LABELS_CUT 0x80000000u /* in the result of a copy: something did not fit */

/* In the order of a sample: the public places, and behind them what onstack_thread_label_set has made. Threads whose ids are
   neighbours swap at the same time: each has a cache line. */
#define ONSTACK_LABELS_OWN ONSTACK_LABELS_PLACES
typedef struct onstack_label_entry {
  const onstack_labels *sets[ONSTACK_LABELS_PLACES + 1] __attribute__((aligned(ONSTACK_CACHE_LINE))); /* NULL: none */
} onstack_label_entry;

/* The entry of a thread, or NULL. Signal-safe. */
ONSTACK_INTERNAL onstack_label_entry *onstack_label_entry_find(uint32_t tid);

/* An empty entry for a thread that has none; NULL when its buckets are full. On that thread only. */
ONSTACK_INTERNAL onstack_label_entry *onstack_label_entry_claim(uint32_t tid);

/* Gives an entry back; the sets are the caller's. On that thread only. */
ONSTACK_INTERNAL void onstack_label_entry_release(onstack_label_entry *entry);

/* In the child of a fork: no thread has an entry any more. `free`: all may be claimed; otherwise those of the parent's threads
   are out of use for good. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_label_entries_after_fork(bool free);

/* Copies whole pairs to `out`; returns the bytes used, with ONSTACK_LABELS_CUT if not all fitted. In the handler, on that
   thread. */
ONSTACK_INTERNAL uint32_t onstack_labels_copy(uint32_t tid, char *out, uint32_t bytes);

/* The pairs of a set that fit. Returns as onstack_labels_copy. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_label_set_copy(const onstack_labels *set, char *out, uint32_t bytes);

/*
 * The labels of the interrupted goroutine (runtime/pprof.Do), copied in the handler.
 *
 * Why that is safe: g.labels is written by its own goroutine only (and by the one that starts it, before it runs), and
 * that goroutine stands still in our handler. What it points to is never changed after it was made
 * (runtime/pprof/label.go), does not move, and cannot be freed while g.labels holds it. The runtime's own handler relies
 * on the same. A drain that came later could not: the collector may have run in between.
 *
 * Where things lie is not promised by Go: the host finds the offset of g.labels and checks what is read with it, by a label of
 * its own (goroutine_labels.c). Without that nothing is read. And all is read by the kernel's copy, so that a
 * wrong layout, or a system without that copy, gives no labels rather than a fault.
 */

#define ONSTACK_GO_LABELS_CUT ((uint32_t)1 << 31) /* in the result: some had no room, or no place in the format */

/*
 * Writes "key\0value\0" for each label of the calling thread's goroutine, whole pairs only, at most `bytes` bytes.
 * Returns the bytes written, perhaps with ONSTACK_GO_LABELS_CUT; 0 where there is no goroutine or no known layout.
 * Signal-safe.
 */
ONSTACK_INTERNAL uint32_t onstack_go_labels_copy(const onstack_go_runtime *go, uint8_t *out, uint32_t bytes);

/* The same with the offset of g.labels given. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_go_labels_copy_at(const onstack_go_runtime *go, uint32_t g_labels, uint8_t *out,
                                                    uint32_t bytes);

/* The calling thread's goroutine; 0: it runs none. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_go_current(const onstack_go_runtime *go);

/*
 * The span that an OpenTelemetry library has published for the calling thread (OTEP 4947): a thread-local pointer
 * otel_thread_ctx_v1 to a record, in an object of the host's. Read in the handler.
 *
 * Why that is safe: the thread itself, and nobody else, writes pointer and record, in the order that a handler on it needs, as
 * the paper demands of it; and it stands still in our handler. Nothing is taken on trust all the same: the way to the pointer
 * leads through the loader's table of thread-local blocks (DTV), which a raw thread does not have and which the thread may
 * be exchanging at this moment. So all is read by the kernel's copy. What it finds there in the worst case has no
 * valid record behind it.
 */

/* Where the pointer is: in one word, since handlers read it while an ordinary thread sets it. 0: nowhere. */
typedef uint64_t onstack_span_place;

#define ONSTACK_SPAN_OFFSET_BITS 40
#define ONSTACK_SPAN_MODULE_BITS 20

/* How a libc lays out the DTV; by number in the highest bits of a place, from 1 on. */
typedef struct onstack_span_layout {
  int32_t dtv;    /* where a thread has its pointer to it, from the thread pointer on */
  int32_t count;  /* where it has the number of its entries, in bytes from it */
  uint32_t entry; /* the bytes of one; entry N begins N times as many from it on, with the address of the block */
} onstack_span_layout;
#define ONSTACK_SPAN_LAYOUTS 2u

ONSTACK_INTERNAL_DATA onstack_span_place onstack_span_of_threads;

/* "trace_id", 32 digits, "span_id", 16 digits, each with its NUL. */
#define ONSTACK_SPAN_BYTES 67u

/* Writes them; 0: the thread is in no span, or has nothing to say so. Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_span_copy(char *out);

/* The address of the calling thread's pointer by a place; 0: it has none. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_span_pointer(onstack_span_place place);

#endif
