/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/hash_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t onstack_profile_hash_find(const onstack_profile_hash_index *index, uint32_t hash, onstack_profile_hash_equal equal,
                                   const void *owner, const void *key) {
  if (index->capacity == 0) return ONSTACK_PROFILE_HASH_NONE;
  size_t mask = index->capacity - 1;
  for (size_t at = hash & mask; index->slots[at].item != 0; at = (at + 1) & mask) {
    const onstack_profile_hash_slot *slot = &index->slots[at];
    if (slot->hash == hash && equal(owner, slot->item - 1, key)) return slot->item - 1;
  }
  return ONSTACK_PROFILE_HASH_NONE;
}

static void hash_place(onstack_profile_hash_slot *slots, size_t mask, onstack_profile_hash_slot slot) {
  size_t at = slot.hash & mask;
  while (slots[at].item != 0) at = (at + 1) & mask;
  slots[at] = slot;
}

int onstack_profile_hash_reserve(onstack_profile_hash_index *index) {
  if (index->count < index->capacity / 4 * 3) return 0; /* a quarter stays free: every search ends */
  size_t capacity = index->capacity == 0 ? 64 : index->capacity * 2;
  onstack_profile_hash_slot *slots = calloc(capacity, sizeof(*slots));
  if (!slots) return -ENOMEM;
  for (size_t i = 0; i < index->capacity; i++) {
    if (index->slots[i].item != 0) hash_place(slots, capacity - 1, index->slots[i]);
  }
  free(index->slots);
  index->slots = slots;
  index->capacity = capacity;
  return 0;
}

void onstack_profile_hash_insert(onstack_profile_hash_index *index, uint32_t hash, uint32_t item) {
  hash_place(index->slots, index->capacity - 1, (onstack_profile_hash_slot){.hash = hash, .item = item + 1});
  index->count++;
}

void onstack_profile_hash_release(onstack_profile_hash_index *index) {
  free(index->slots);
  *index = (onstack_profile_hash_index){0};
}

/* Multiplication spreads upwards only, so the high half is folded back after each step: addresses differ in
   low bits, and the index looks at low bits. */
uint64_t onstack_profile_hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ (hash >> 32);
}

uint64_t onstack_profile_hash_bytes(uint64_t hash, const void *bytes, size_t length) {
  const char *next = bytes;
  size_t left = length;
  for (; left >= 8; left -= 8, next += 8) {
    uint64_t word;
    memcpy(&word, next, 8);
    hash = onstack_profile_hash_word(hash, word);
  }
  uint64_t rest = 0;
  memcpy(&rest, next, left);
  hash = onstack_profile_hash_word(hash, rest);
  return onstack_profile_hash_word(hash, length);
}

uint32_t onstack_profile_hash_fold(uint64_t hash) { return (uint32_t)(onstack_profile_hash_word(hash, 0) >> 16); }
