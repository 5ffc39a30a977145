/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A hash index over items that somebody else keeps in an array: key -> position. It stores positions only, so the
 * array may move. Items are never removed one by one.
 *
 * Insertion has two steps, so that a failed allocation leaves the owner unchanged: reserve (may fail) first, then the
 * owner adds its item, then insert (cannot fail).
 */
#ifndef ONSTACK_PROFILE_STORE_HASH_INDEX_H
#define ONSTACK_PROFILE_STORE_HASH_INDEX_H

#include "platform/defs.h"

#define ONSTACK_PROFILE_HASH_NONE UINT32_MAX

typedef struct onstack_profile_hash_slot {
  uint32_t hash;
  uint32_t item; /* position + 1; 0: free */
} onstack_profile_hash_slot;

/* All zero: empty, ready to use. */
typedef struct onstack_profile_hash_index {
  onstack_profile_hash_slot *slots;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
} onstack_profile_hash_index;

/* Whether the owner's item at this position has this key. */
typedef bool (*onstack_profile_hash_equal)(const void *owner, uint32_t item, const void *key);

/* Returns the position, or ONSTACK_PROFILE_HASH_NONE. */
ONSTACK_INTERNAL uint32_t onstack_profile_hash_find(const onstack_profile_hash_index *index, uint32_t hash,
                                                    onstack_profile_hash_equal equal, const void *owner, const void *key);
/* Room for one more. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_hash_reserve(onstack_profile_hash_index *index);
/* Adds a position whose key is not there yet, after a successful reserve. */
ONSTACK_INTERNAL void onstack_profile_hash_insert(onstack_profile_hash_index *index, uint32_t hash, uint32_t item);
ONSTACK_INTERNAL void onstack_profile_hash_release(onstack_profile_hash_index *index);

/* Mixes words into a hash: start from any seed, feed words, fold at the end. */
ONSTACK_INTERNAL uint64_t onstack_profile_hash_word(uint64_t hash, uint64_t word);
ONSTACK_INTERNAL uint64_t onstack_profile_hash_bytes(uint64_t hash, const void *bytes, size_t length);
ONSTACK_INTERNAL uint32_t onstack_profile_hash_fold(uint64_t hash);

#endif
