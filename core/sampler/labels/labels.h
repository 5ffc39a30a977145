/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The labels that the application has given to threads, by thread id.
 *
 * Only a thread itself changes its entry (core/sampler/api/thread_labels.c), and only its own handler reads it: a set comes
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

#endif
