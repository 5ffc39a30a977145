/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/stacks.h"

#include "platform/atomics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

onstack_profile_stacks *onstack_profile_stacks_new(size_t timeline_bytes, uint64_t origin_ns) {
  onstack_profile_stacks *stacks = calloc(1, sizeof(*stacks));
  if (!stacks) return NULL;
  stacks->references = 1;
  stacks->timeline.room = timeline_bytes;
  stacks->timeline.origin_ns = origin_ns;
  stacks->timeline.wanted = timeline_bytes > 0;
  for (uint32_t kind = 0; kind < ONSTACK_KINDS; kind++) {
    stacks->overflow_heads[kind].kind = (onstack_kind)kind;
    stacks->overflow[kind].head = &stacks->overflow_heads[kind];
  }
  return stacks;
}

bool onstack_profile_stacks_drop(onstack_profile_stacks *stacks) { return onstack_release_was_last(&stacks->references); }

void onstack_profile_stacks_free(onstack_profile_stacks *stacks) {
  onstack_profile_arena_release(&stacks->frames);
  onstack_profile_hash_release(&stacks->address_index);
  onstack_profile_hash_release(&stacks->head_index);
  onstack_profile_hash_release(&stacks->index);
  onstack_profile_held_release(&stacks->held);
  onstack_profile_arena_release(&stacks->timeline.arena);
  free(stacks->addresses);
  free(stacks->heads);
  free(stacks->items);
  free(stacks);
}

static uint64_t stacks_hash_head(const onstack_profile_head *head) {
  uint64_t hash = onstack_profile_hash_word(head->period, (uint64_t)head->kind << 32 | (uint32_t)head->tid);
  hash = onstack_profile_hash_word(hash, head->truncation);
  hash = onstack_profile_hash_bytes(hash, head->thread_name, sizeof(head->thread_name));
  return head->label_bytes > 0 ? onstack_profile_hash_bytes(hash, head->labels, head->label_bytes) : hash;
}

static bool stacks_equal_heads(const onstack_profile_head *have, const onstack_profile_head *want) {
  return have->tid == want->tid && have->period == want->period && have->kind == want->kind &&
         have->truncation == want->truncation && have->label_bytes == want->label_bytes &&
         (want->label_bytes == 0 || memcmp(have->labels, want->labels, want->label_bytes) == 0) &&
         memcmp(have->thread_name, want->thread_name, sizeof(have->thread_name)) == 0;
}

static bool stacks_equal_head(const void *owner, uint32_t item, const void *key) {
  return stacks_equal_heads(((const onstack_profile_stacks *)owner)->heads[item], key);
}

static bool stacks_equal_address(const void *owner, uint32_t item, const void *key) {
  return ((const onstack_profile_stacks *)owner)->addresses[item] == *(const uint64_t *)key;
}

typedef struct stacks_key {
  const onstack_profile_head *head;
  const uint64_t *frames;
  uint32_t frame_count;
} stacks_key;

static uint32_t stacks_hash(const stacks_key *key, uint64_t hash) {
  hash = onstack_profile_hash_word(hash, key->frame_count);
  for (uint32_t i = 0; i < key->frame_count; i++) hash = onstack_profile_hash_word(hash, key->frames[i]);
  return onstack_profile_hash_fold(hash);
}

static bool stacks_equal(const void *owner, uint32_t item, const void *data) {
  const onstack_profile_stacks *stacks = owner;
  const onstack_profile_stack *have = &stacks->items[item];
  const stacks_key *want = data;
  if (have->frame_count != want->frame_count || !stacks_equal_heads(have->head, want->head)) return false;
  for (uint32_t i = 0; i < want->frame_count; i++)
    if (stacks->addresses[have->frames[i]] != want->frames[i]) return false;
  return true;
}

/* The number of an address, new or known; ONSTACK_PROFILE_HASH_NONE: no memory. */
static uint32_t stacks_number(onstack_profile_stacks *stacks, uint64_t address) {
  const uint32_t hash = onstack_profile_hash_fold(onstack_profile_hash_word(0, address));
  uint32_t number = onstack_profile_hash_find(&stacks->address_index, hash, stacks_equal_address, stacks, &address);
  if (number != ONSTACK_PROFILE_HASH_NONE) return number;
  if (stacks->address_count >= UINT32_MAX - 1 || onstack_profile_hash_reserve(&stacks->address_index) != 0)
    return ONSTACK_PROFILE_HASH_NONE;
  void *addresses = onstack_profile_grow(stacks->addresses, &stacks->address_capacity, stacks->address_count + 1,
                                         sizeof(*stacks->addresses));
  if (!addresses) return ONSTACK_PROFILE_HASH_NONE;
  stacks->addresses = addresses;
  number = (uint32_t)stacks->address_count++;
  stacks->addresses[number] = address;
  onstack_profile_hash_insert(&stacks->address_index, hash, number);
  return number;
}

/* The store's own copy of a head, new or known; NULL: no memory. */
static const onstack_profile_head *stacks_head(onstack_profile_stacks *stacks, const onstack_profile_head *key,
                                               uint64_t hash) {
  const uint32_t folded = onstack_profile_hash_fold(hash);
  const uint32_t item = onstack_profile_hash_find(&stacks->head_index, folded, stacks_equal_head, stacks, key);
  if (item != ONSTACK_PROFILE_HASH_NONE) return stacks->heads[item];
  if (onstack_profile_hash_reserve(&stacks->head_index) != 0) return NULL;
  void *heads = onstack_profile_grow(stacks->heads, &stacks->head_capacity, stacks->head_count + 1, sizeof(*stacks->heads));
  if (!heads) return NULL;
  stacks->heads = heads;
  onstack_profile_head *head = onstack_profile_arena_take(&stacks->frames, sizeof(*head));
  const char *labels = key->labels;
  if (labels) labels = onstack_profile_arena_text(&stacks->frames, labels, key->label_bytes);
  if (!head || (!labels && key->labels)) return NULL;
  *head = *key;
  head->labels = labels;
  onstack_profile_hash_insert(&stacks->head_index, folded, (uint32_t)stacks->head_count);
  stacks->heads[stacks->head_count++] = head;
  return head;
}

static onstack_profile_stack *stacks_add(onstack_profile_stacks *stacks, const stacks_key *key, uint64_t head_hash,
                                         uint32_t hash) {
  if (onstack_profile_hash_reserve(&stacks->index) != 0) return NULL;
  void *items = onstack_profile_grow(stacks->items, &stacks->capacity, stacks->count + 1, sizeof(*stacks->items));
  if (!items) return NULL;
  stacks->items = items;
  const onstack_profile_head *head = stacks_head(stacks, key->head, head_hash);
  uint32_t *frames = !head ? NULL : onstack_profile_arena_take(&stacks->frames, key->frame_count * sizeof(*frames));
  if (!frames) return NULL;
  for (uint32_t i = 0; i < key->frame_count; i++) {
    frames[i] = stacks_number(stacks, key->frames[i]);
    if (frames[i] == ONSTACK_PROFILE_HASH_NONE) return NULL;
  }
  onstack_profile_stack *stack = &stacks->items[stacks->count];
  *stack = (onstack_profile_stack){.frames = frames, .head = head, .frame_count = key->frame_count};
  onstack_profile_hash_insert(&stacks->index, hash, (uint32_t)stacks->count);
  stacks->count++;
  return stack;
}

/* A time and a weight tell the value of these. */
static bool stacks_kind_has_times(onstack_kind kind) { return kind == ONSTACK_KIND_CPU || kind == ONSTACK_KIND_WALL; }

int onstack_profile_stacks_count(onstack_profile_stacks *stacks, const onstack_profile_head *head, const uint64_t *frames,
                                 const onstack_sample *sample, size_t limit, bool *added) {
  const stacks_key key = {head, frames, sample->frame_count};
  const uint64_t head_hash = stacks_hash_head(head);
  uint32_t hash = stacks_hash(&key, head_hash);
  uint32_t item = onstack_profile_hash_find(&stacks->index, hash, stacks_equal, stacks, &key);
  onstack_profile_stack *stack = item == ONSTACK_PROFILE_HASH_NONE ? NULL : &stacks->items[item];
  *added = false;
  if (sample->object != 0 && onstack_profile_held_reserve(&stacks->held) != 0) return -ENOMEM;
  if (!stack && stacks->count >= limit) {
    stack = &stacks->overflow[head->kind];
    item = ONSTACK_PROFILE_HASH_NONE;
  } else if (!stack) {
    stack = stacks_add(stacks, &key, head_hash, hash);
    if (!stack) return -ENOMEM;
    *added = true;
    item = (uint32_t)stacks->count - 1;
  }
  if (stack->weight == 0 || sample->time_ns < stack->first_ns) stack->first_ns = sample->time_ns;
  if (sample->time_ns > stack->last_ns) stack->last_ns = sample->time_ns;
  stack->weight += sample->weight;
  stack->value += sample->value;
  if (stacks->timeline.wanted && stacks_kind_has_times(sample->kind))
    onstack_profile_times_add(&stacks->timeline, &stack->times, sample->time_ns, sample->weight);
  if (sample->object == 0) return 0;
  stack->held_weight += sample->weight;
  stack->held_value += sample->value;
  onstack_profile_held_add(
      &stacks->held, &(onstack_profile_held_object){sample->object, sample->value, sample->time_ns, sample->weight, item});
  return 0;
}

void onstack_profile_stacks_end(onstack_profile_stacks *stacks, uint64_t object) {
  onstack_profile_held_object held;
  if (!onstack_profile_held_remove(&stacks->held, object, &held)) return;
  onstack_profile_stack *stack =
      held.stack == ONSTACK_PROFILE_HASH_NONE ? &stacks->overflow[ONSTACK_KIND_ALLOCATION] : &stacks->items[held.stack];
  stack->held_weight -= held.weight;
  stack->held_value -= held.value;
}
