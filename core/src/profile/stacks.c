/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/stacks.h"

#include "base/atomics.h"

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
  return stacks;
}

bool onstack_profile_stacks_drop(onstack_profile_stacks *stacks) { return onstack_release_was_last(&stacks->references); }

void onstack_profile_stacks_free(onstack_profile_stacks *stacks) {
  onstack_profile_arena_release(&stacks->frames);
  onstack_profile_hash_release(&stacks->index);
  onstack_profile_held_release(&stacks->held);
  onstack_kept_names_release(&stacks->names);
  onstack_profile_arena_release(&stacks->timeline.arena);
  free(stacks->items);
  free(stacks);
}

static uint32_t stacks_hash(const onstack_profile_stack *stack) {
  uint64_t hash = onstack_profile_hash_word(stack->period, (uint64_t)stack->kind << 32 | (uint32_t)stack->tid);
  hash = onstack_profile_hash_word(hash, (uint64_t)stack->truncation << 32 | stack->frame_count);
  hash = onstack_profile_hash_bytes(hash, stack->thread_name, sizeof(stack->thread_name));
  if (stack->label_bytes > 0) hash = onstack_profile_hash_bytes(hash, stack->labels, stack->label_bytes);
  for (uint32_t i = 0; i < stack->frame_count; i++) hash = onstack_profile_hash_word(hash, stack->frames[i]);
  return onstack_profile_hash_fold(hash);
}

static bool stacks_equal(const void *owner, uint32_t item, const void *key) {
  const onstack_profile_stack *have = &((const onstack_profile_stacks *)owner)->items[item];
  const onstack_profile_stack *want = key;
  if (have->frame_count != want->frame_count || have->tid != want->tid || have->period != want->period ||
      have->kind != want->kind || have->truncation != want->truncation || have->label_bytes != want->label_bytes ||
      (want->label_bytes > 0 && memcmp(have->labels, want->labels, want->label_bytes) != 0) ||
      memcmp(have->thread_name, want->thread_name, sizeof(have->thread_name)) != 0) {
    return false;
  }
  return memcmp(have->frames, want->frames, want->frame_count * sizeof(*want->frames)) == 0;
}

static onstack_profile_stack *stacks_add(onstack_profile_stacks *stacks, const onstack_profile_stack *key, uint32_t hash) {
  if (onstack_profile_hash_reserve(&stacks->index) != 0) return NULL;
  void *items = onstack_profile_grow(stacks->items, &stacks->capacity, stacks->count + 1, sizeof(*stacks->items));
  if (!items) return NULL;
  stacks->items = items;
  size_t frame_bytes = key->frame_count * sizeof(*key->frames);
  uint64_t *frames = onstack_profile_arena_take(&stacks->frames, frame_bytes);
  if (!frames) return NULL;
  memcpy(frames, key->frames, frame_bytes);
  onstack_profile_stack *stack = &stacks->items[stacks->count];
  const char *labels = key->labels;
  if (labels) labels = onstack_profile_arena_text(&stacks->frames, labels, key->label_bytes);
  if (!labels && key->labels) return NULL;
  *stack = *key;
  stack->labels = labels;
  stack->frames = frames;
  onstack_profile_hash_insert(&stacks->index, hash, (uint32_t)stacks->count);
  stacks->count++;
  return stack;
}

/* A time and a weight tell the value of these. */
static bool stacks_kind_has_times(onstack_kind kind) { return kind == ONSTACK_KIND_CPU || kind == ONSTACK_KIND_WALL; }

int onstack_profile_stacks_count(onstack_profile_stacks *stacks, const onstack_profile_stack *key,
                                 const onstack_sample *sample, size_t limit, bool *added) {
  uint32_t hash = stacks_hash(key);
  uint32_t item = onstack_profile_hash_find(&stacks->index, hash, stacks_equal, stacks, key);
  onstack_profile_stack *stack = item == ONSTACK_PROFILE_HASH_NONE ? NULL : &stacks->items[item];
  *added = false;
  if (sample->object != 0 && onstack_profile_held_reserve(&stacks->held) != 0) return -ENOMEM;
  if (!stack && stacks->count >= limit) {
    stack = &stacks->overflow[key->kind];
    stack->kind = key->kind;
    item = ONSTACK_PROFILE_HASH_NONE;
  } else if (!stack) {
    stack = stacks_add(stacks, key, hash);
    if (!stack) return -ENOMEM;
    *added = true;
    item = (uint32_t)stacks->count - 1;
  }
  if (stack->samples == 0 || sample->time_ns < stack->first_ns) stack->first_ns = sample->time_ns;
  if (sample->time_ns > stack->last_ns) stack->last_ns = sample->time_ns;
  stack->samples++;
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
