/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/labels/labels.h"

#define LABEL_BUCKET 16u
#define LABEL_WINDOW 64u /* entries that are searched: four buckets, as in the thread table */

#define LABEL_OUT_OF_USE UINT32_MAX /* no thread has that id */

static uint32_t label_tids[ONSTACK_LABEL_THREADS]; /* 0: free */
static onstack_label_entry label_entries[ONSTACK_LABEL_THREADS];
static uint32_t label_threads; /* entries in use: programs without labels pay one load a sample */

static ONSTACK_HANDLER uint32_t label_home(uint32_t tid) {
  return tid / LABEL_BUCKET % (ONSTACK_LABEL_THREADS / LABEL_BUCKET) * LABEL_BUCKET;
}

ONSTACK_HANDLER onstack_label_entry *onstack_label_entry_find(uint32_t tid) {
  uint32_t home = label_home(tid);
  if (onstack_load_relaxed(&label_threads) == 0) return NULL;
  for (uint32_t i = 0; i < LABEL_WINDOW; i++) {
    uint32_t index = (home + i) % ONSTACK_LABEL_THREADS;
    if (onstack_observe(&label_tids[index]) == tid) return &label_entries[index];
  }
  return NULL;
}

onstack_label_entry *onstack_label_entry_claim(uint32_t tid) {
  uint32_t home = label_home(tid);
  for (uint32_t i = 0; i < LABEL_WINDOW; i++) {
    uint32_t index = (home + i) % ONSTACK_LABEL_THREADS;
    uint32_t expected = 0;
    if (onstack_load_relaxed(&label_tids[index]) != 0 || !onstack_cas(&label_tids[index], &expected, tid)) continue;
    onstack_add_relaxed(&label_threads, 1u);
    return &label_entries[index];
  }
  return NULL;
}

static void label_entry_empty(onstack_label_entry *entry) {
  for (uint32_t place = 0; place < ONSTACK_COUNT_OF(entry->sets); place++)
    onstack_publish(&entry->sets[place], (const onstack_labels *)0);
}

void onstack_label_entry_release(onstack_label_entry *entry) {
  label_entry_empty(entry);
  onstack_publish(&label_tids[entry - label_entries], 0u);
  onstack_sub_relaxed(&label_threads, 1u);
}

/* Sets are left where they are: nothing may be freed here. */
void onstack_label_entries_after_fork(bool free) {
  if (label_threads == 0) return;
  label_threads = 0;
  for (uint32_t i = 0; i < ONSTACK_LABEL_THREADS; i++) {
    if (label_tids[i] == 0) continue;
    if (free) label_entry_empty(&label_entries[i]);
    label_tids[i] = free ? 0 : LABEL_OUT_OF_USE;
  }
}

/* Bytes of the pair that begins at `at`, both NULs included. */
static ONSTACK_HANDLER uint32_t label_pair(const onstack_labels *set, uint32_t at) {
  uint32_t bytes = 0;
  for (uint32_t nuls = 0; nuls < 2 && at + bytes < set->bytes; bytes++) nuls += set->text[at + bytes] == 0;
  return bytes;
}

static ONSTACK_HANDLER void label_copy(const char *from, char *out, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) ((volatile char *)out)[i] = from[i]; /* volatile: no call of memcpy */
}

ONSTACK_HANDLER uint32_t onstack_label_set_copy(const onstack_labels *set, char *out, uint32_t bytes) {
  uint32_t used = 0, cut = set->cut ? ONSTACK_LABELS_CUT : 0;
  for (uint32_t at = 0, pair; at < set->bytes; at += pair) {
    pair = used == 0 && set->bytes <= bytes ? set->bytes : label_pair(set, at); /* most sets fit as a whole */
    if (pair > bytes - used) {
      cut = ONSTACK_LABELS_CUT;
      continue;
    }
    label_copy(set->text + at, out + used, pair);
    used += pair;
  }
  return used | cut;
}

ONSTACK_HANDLER uint32_t onstack_labels_copy(uint32_t tid, char *out, uint32_t bytes) {
  const onstack_label_entry *entry = onstack_label_entry_find(tid);
  uint32_t used = 0, cut = 0;
  for (uint32_t place = 0; entry && place < ONSTACK_COUNT_OF(entry->sets); place++) {
    const onstack_labels *set = onstack_observe(&entry->sets[place]); /* pairs with the publish in thread_labels.c */
    const uint32_t result = set ? onstack_label_set_copy(set, out + used, bytes - used) : 0;
    used += result & ~ONSTACK_LABELS_CUT;
    cut |= result & ONSTACK_LABELS_CUT;
  }
  return used | cut;
}
