/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The labels that the application has given to threads, by thread id.
 *
 * Only a thread itself changes its labels (core/src/session/thread_labels.c), and only its own handler reads them: the set is replaced
 * by one store of a pointer, so the handler, which interrupts the thread before or behind that store, finds a whole set,
 * and the old one can be freed right after. No lock, and no thread-local storage, which a raw thread may not have.
 *
 * An entry is claimed by one compare-and-swap on its thread id and looked for as in the thread table: dense buckets of 16
 * ids, no tombstones, nothing is ever moved.
 */
#ifndef ONSTACK_HANDLER_LABELS_LABELS_H
#define ONSTACK_HANDLER_LABELS_LABELS_H

#include "base/atomics.h"
#include "base/defs.h"

#define ONSTACK_LABEL_THREADS 16384u
#define ONSTACK_LABELS_CUT 0x80000000u /* in the result of a copy: something did not fit */

/* "key\0value\0key\0value\0". Never changed once it can be found. */
typedef struct onstack_label_set {
  uint32_t bytes;
  char text[];
} onstack_label_set;

typedef struct onstack_label_entry {
  const onstack_label_set *set; /* NULL: none */
} onstack_label_entry;

/* The entry of a thread, or NULL. Signal-safe. */
ONSTACK_INTERNAL onstack_label_entry *onstack_labels_find(uint32_t tid);

/* A fresh entry for a thread that has none; NULL when its buckets are full. On that thread only. */
ONSTACK_INTERNAL onstack_label_entry *onstack_labels_claim(uint32_t tid);

/* Gives an entry back; its set is the caller's. On that thread only. */
ONSTACK_INTERNAL void onstack_labels_release(onstack_label_entry *entry);

/* In the child of a fork: the forking thread goes on under a new id, the others are not here. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_labels_after_fork(uint32_t parent_tid, uint32_t child_tid);

/* Copies whole pairs to `out`; returns the bytes used, with ONSTACK_LABELS_CUT if not all fitted. In the handler, on that
   thread. */
ONSTACK_INTERNAL uint32_t onstack_labels_copy(uint32_t tid, char *out, uint32_t bytes);

#endif
