/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/stacks.h"

#include "platform/atomics.h"
#include "onstack/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELD_FIRST ((size_t)64)

static size_t held_home(const onstack_profile_held *held, uint64_t object) {
  return onstack_profile_hash_fold(onstack_profile_hash_word(0, object)) & (held->capacity - 1);
}

/* After a reserve; the object is not there yet. */
static void held_add(onstack_profile_held *held, const onstack_profile_held_object *object) {
  size_t at = held_home(held, object->object);
  while (held->places[at].object != 0) at = (at + 1) & (held->capacity - 1);
  held->places[at] = *object;
  held->count++;
}

/* Room for one more. Errors: -ENOMEM. */
static int held_reserve(onstack_profile_held *held) {
  if (2 * (held->count + 1) <= held->capacity) return 0;
  onstack_profile_held larger = {.capacity = held->capacity ? 2 * held->capacity : HELD_FIRST};
  larger.places = calloc(larger.capacity, sizeof(*larger.places));
  if (!larger.places) return -ENOMEM;
  for (size_t i = 0; i < held->capacity; i++)
    if (held->places[i].object != 0) held_add(&larger, &held->places[i]);
  free(held->places);
  *held = larger;
  return 0;
}

/* No mark stays behind: what comes after it in its chain moves up. */
static void held_close(onstack_profile_held *held, size_t hole) {
  const size_t mask = held->capacity - 1;
  for (size_t at = (hole + 1) & mask; held->places[at].object != 0; at = (at + 1) & mask) {
    const size_t home = held_home(held, held->places[at].object);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    held->places[hole] = held->places[at];
    hole = at;
  }
  held->places[hole].object = 0;
}

/* Takes it out; false: it is not there. */
static bool held_remove(onstack_profile_held *held, uint64_t object, onstack_profile_held_object *out) {
  if (held->capacity == 0 || object == 0) return false;
  size_t at = held_home(held, object);
  while (held->places[at].object != 0 && held->places[at].object != object) at = (at + 1) & (held->capacity - 1);
  if (held->places[at].object == 0) return false;
  *out = held->places[at];
  held_close(held, at);
  held->count--;
  return true;
}

static void held_release(onstack_profile_held *held) {
  free(held->places);
  *held = (onstack_profile_held){0};
}

#define TIMES_FIRST 16u       /* bytes of a stack's first piece: holds any varint, and few stacks come twice */
#define TIMES_LARGEST 1024u   /* each further one has twice as many, up to here */
#define TIMES_MOST (1u << 30) /* of one stack: its count has 32 bits */

typedef struct times_piece {
  struct times_piece *next;
  uint32_t capacity;
  uint8_t bytes[];
} times_piece;

struct onstack_profile_times {
  times_piece *newest; /* these three are the adder's alone */
  uint32_t used;       /* of it */
  int64_t last_us;
  times_piece *oldest;
};

static uint64_t times_zigzag(int64_t value) { return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0); }

static size_t times_encode_sample(uint8_t *out, int64_t since_us, uint32_t weight) {
  size_t length = onstack_protobuf_put_varint(out, times_zigzag(since_us) << 1 | (weight != 1));
  if (weight != 1) length += onstack_protobuf_put_varint(out + length, weight);
  return length;
}

static void *times_take(onstack_profile_timeline *timeline, size_t bytes) {
  if (bytes > timeline->room) return NULL;
  void *piece = onstack_profile_arena_take(&timeline->arena, bytes);
  if (piece) timeline->room -= bytes;
  return piece;
}

static times_piece *times_piece_new(onstack_profile_timeline *timeline, uint32_t capacity) {
  times_piece *piece = times_take(timeline, sizeof(*piece) + capacity);
  if (piece) *piece = (times_piece){.capacity = capacity};
  return piece;
}

static onstack_profile_times *times_new(onstack_profile_timeline *timeline) {
  onstack_profile_times *chain = times_take(timeline, sizeof(*chain));
  times_piece *piece = chain ? times_piece_new(timeline, TIMES_FIRST) : NULL;
  if (!piece) return NULL;
  *chain = (onstack_profile_times){.newest = piece, .oldest = piece};
  return chain;
}

/* A sample's bytes lie in two pieces where the first has no room for all. */
static bool times_append(onstack_profile_timeline *timeline, onstack_profile_times *chain, const uint8_t *bytes,
                         size_t length) {
  times_piece *piece = chain->newest;
  size_t here = piece->capacity - chain->used;
  if (here > length) here = length;
  times_piece *next = NULL;
  if (here < length) {
    next = times_piece_new(timeline, piece->capacity < TIMES_LARGEST ? 2 * piece->capacity : TIMES_LARGEST);
    if (!next) return false;
  }
  memcpy(piece->bytes + chain->used, bytes, here);
  chain->used += (uint32_t)here;
  if (!next) return true;
  memcpy(next->bytes, bytes + here, length - here);
  piece->next = next;
  chain->newest = next;
  chain->used = (uint32_t)(length - here);
  return true;
}

static bool times_keep(onstack_profile_timeline *timeline, onstack_profile_stack_times *times, int64_t at_us,
                       uint32_t weight) {
  uint8_t bytes[2 * ONSTACK_PROTOBUF_VARINT];
  if (times->bytes > TIMES_MOST) return false;
  if (!times->chain) times->chain = times_new(timeline);
  if (!times->chain) return false;
  const size_t length = times_encode_sample(bytes, at_us - times->chain->last_us, weight);
  if (!times_append(timeline, times->chain, bytes, length)) return false;
  times->chain->last_us = at_us;
  times->bytes += (uint32_t)length;
  return true;
}

/* Half of the range at most, so that the lowest bit is free: 146,000 years. */
static int64_t times_us(uint64_t time_ns, uint64_t origin_ns) { return (int64_t)(time_ns - origin_ns) / 1000; }

/* Notes a sample's time, or counts it as lost where there is no room. */
static void times_note(onstack_profile_timeline *timeline, onstack_profile_stack_times *times, uint64_t time_ns,
                       uint32_t weight) {
  if (times_keep(timeline, times, times_us(time_ns, timeline->origin_ns), weight))
    timeline->kept++;
  else
    timeline->lost++;
}

static uint64_t times_varint(const uint8_t *bytes, uint32_t *length) {
  uint64_t value = 0;
  uint32_t at = 0;
  do value |= (uint64_t)(bytes[at] & 0x7f) << 7 * at;
  while (bytes[at++] >= 0x80);
  *length = at;
  return value;
}

/* The field's head, and the first time by the other origin; *skip: the bytes of the chain that it stands for. */
static size_t times_head(const onstack_profile_stack_times *times, int64_t shift_us,
                         uint8_t out[3 * ONSTACK_PROTOBUF_VARINT], uint32_t *skip) {
  uint8_t first[ONSTACK_PROTOBUF_VARINT];
  const uint8_t *bytes_of_first = times->chain->oldest->bytes;
  const uint64_t number = times_varint(bytes_of_first, skip); /* the chain's first block has the whole of it */
  const int64_t since = (int64_t)(number >> 2) ^ -(int64_t)(number >> 1 & 1);
  const size_t bytes = onstack_protobuf_put_varint(first, times_zigzag(since + shift_us) << 1 | (number & 1));
  size_t length = onstack_protobuf_put_varint(out, (uint64_t)ONSTACK_PPROF_SAMPLE_TIMES << 3 | 2);
  length += onstack_protobuf_put_varint(out + length, times->bytes - *skip + bytes);
  memcpy(out + length, first, bytes);
  return length + bytes;
}

size_t onstack_profile_times_length(const onstack_profile_stack_times *times, int64_t shift_us) {
  uint8_t head[3 * ONSTACK_PROTOBUF_VARINT];
  uint32_t skip;
  if (times->bytes == 0) return 0;
  const size_t length = times_head(times, shift_us, head, &skip);
  return length + times->bytes - skip;
}

int onstack_profile_times_write(const onstack_profile_stack_times *times, int64_t shift_us, onstack_profile_output *output) {
  uint8_t head[3 * ONSTACK_PROTOBUF_VARINT];
  uint32_t at;
  if (times->bytes == 0) return 0;
  const size_t length = times_head(times, shift_us, head, &at);
  int error = onstack_profile_output_put(output, head, length);
  const times_piece *piece = times->chain->oldest;
  for (uint32_t left = times->bytes - at; error == 0;) {
    const uint32_t here = piece->capacity - at < left ? piece->capacity - at : left;
    error = onstack_profile_output_put(output, piece->bytes + at, here);
    left -= here;
    if (left == 0) break; /* the last piece's `next` may be being written */
    piece = piece->next;
    at = 0;
  }
  return error;
}

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
  held_release(&stacks->held);
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
  if (sample->object != 0 && held_reserve(&stacks->held) != 0) return -ENOMEM;
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
    times_note(&stacks->timeline, &stack->times, sample->time_ns, sample->weight);
  if (sample->object == 0) return 0;
  stack->held_weight += sample->weight;
  stack->held_value += sample->value;
  held_add(&stacks->held,
           &(onstack_profile_held_object){sample->object, sample->value, sample->time_ns, sample->weight, item});
  return 0;
}

void onstack_profile_stacks_end(onstack_profile_stacks *stacks, uint64_t object) {
  onstack_profile_held_object held;
  if (!held_remove(&stacks->held, object, &held)) return;
  onstack_profile_stack *stack =
      held.stack == ONSTACK_PROFILE_HASH_NONE ? &stacks->overflow[ONSTACK_KIND_ALLOCATION] : &stacks->items[held.stack];
  stack->held_weight -= held.weight;
  stack->held_value -= held.value;
}
