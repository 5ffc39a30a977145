/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/labels/labels.h"

#define LABEL_BUCKET 16u
#define LABEL_WINDOW 64u /* entries that are searched: four buckets, as in the thread table */

static uint32_t label_tids[ONSTACK_LABEL_THREADS]; /* 0: free */
static onstack_label_entry label_entries[ONSTACK_LABEL_THREADS];
static uint32_t label_threads; /* entries in use: programs without labels pay one load a sample */

static ONSTACK_HANDLER uint32_t label_home(uint32_t tid) {
  return tid / LABEL_BUCKET % (ONSTACK_LABEL_THREADS / LABEL_BUCKET) * LABEL_BUCKET;
}

ONSTACK_HANDLER onstack_label_entry *onstack_labels_find(uint32_t tid) {
  uint32_t home = label_home(tid);
  if (onstack_load_relaxed(&label_threads) == 0) return NULL;
  for (uint32_t i = 0; i < LABEL_WINDOW; i++) {
    uint32_t index = (home + i) % ONSTACK_LABEL_THREADS;
    if (onstack_observe(&label_tids[index]) == tid) return &label_entries[index];
  }
  return NULL;
}

onstack_label_entry *onstack_labels_claim(uint32_t tid) {
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

void onstack_labels_release(onstack_label_entry *entry) {
  onstack_publish(&entry->set, (const onstack_label_set *)0);
  onstack_publish(&label_tids[entry - label_entries], 0u);
  onstack_sub_relaxed(&label_threads, 1u);
}

/* The sets of the others are left where they are: nothing may be freed here. */
void onstack_labels_after_fork(uint32_t parent_tid, uint32_t child_tid) {
  onstack_label_entry *entry = onstack_labels_find(parent_tid);
  const onstack_label_set *set = entry ? entry->set : NULL;
  if (label_threads == 0) return;
  label_threads = 0;
  for (uint32_t i = 0; i < ONSTACK_LABEL_THREADS; i++) {
    if (label_tids[i] == 0) continue;
    label_tids[i] = 0;
    label_entries[i].set = NULL;
  }
  if (set && (entry = onstack_labels_claim(child_tid))) entry->set = set;
}

/* Bytes of the pair that begins at `at`, both NULs included. */
static ONSTACK_HANDLER uint32_t label_pair(const onstack_label_set *set, uint32_t at) {
  uint32_t bytes = 0;
  for (uint32_t nuls = 0; nuls < 2 && at + bytes < set->bytes; bytes++) nuls += set->text[at + bytes] == 0;
  return bytes;
}

ONSTACK_HANDLER uint32_t onstack_labels_copy(uint32_t tid, char *out, uint32_t bytes) {
  const onstack_label_entry *entry = onstack_labels_find(tid);
  const onstack_label_set *set = entry ? onstack_observe(&entry->set) : NULL; /* pairs with the publish in labels.c */
  uint32_t used = 0, cut = 0;
  if (!set) return 0;
  for (uint32_t at = 0, pair; at < set->bytes; at += pair) {
    pair = label_pair(set, at);
    if (pair > bytes - used) {
      cut = ONSTACK_LABELS_CUT;
      continue;
    }
    for (uint32_t i = 0; i < pair; i++) ((volatile char *)out)[used + i] = set->text[at + i];
    used += pair;
  }
  return used | cut;
}
