/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/times.h"

#include "profile/store/protobuf.h"
#include "profile/store/protobuf_reader.h"

#include <string.h>

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

static bool times_add(onstack_profile_timeline *timeline, onstack_profile_stack_times *times, int64_t at_us,
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

void onstack_profile_times_add(onstack_profile_timeline *timeline, onstack_profile_stack_times *times, uint64_t time_ns,
                               uint32_t weight) {
  if (times_add(timeline, times, times_us(time_ns, timeline->origin_ns), weight))
    timeline->kept++;
  else
    timeline->lost++;
}

/* The field's head, and the first time by the other origin; *skip: the bytes of the chain that it stands for. */
static size_t times_head(const onstack_profile_stack_times *times, int64_t shift_us,
                         uint8_t out[3 * ONSTACK_PROTOBUF_VARINT], uint32_t *skip) {
  uint64_t number;
  uint8_t first[ONSTACK_PROTOBUF_VARINT];
  const uint8_t *bytes_of_first = times->chain->oldest->bytes;
  onstack_protobuf_reader reader = {bytes_of_first, bytes_of_first + TIMES_FIRST};
  onstack_protobuf_varint(&reader, &number); /* lies there as a whole */
  *skip = (uint32_t)(reader.at - bytes_of_first);
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
