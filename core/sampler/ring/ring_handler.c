/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/ring/ring.h"

#include "platform/sys.h"
#include "onstack/interpreter.h"
#include "onstack/onstack.h"

#include <time.h>

_Static_assert(sizeof(onstack_ring_entry) == ONSTACK_RING_GRANULE, "a gap's header fits into the smallest gap");
_Static_assert((ONSTACK_MAX_DEPTH * (9 + sizeof(onstack_interpreted_frame)) + 2 * ONSTACK_MAX_LABEL_BYTES +
                ONSTACK_FRAME_SCRATCH) /
                           ONSTACK_RING_GRANULE +
                       2 <
                   ONSTACK_RING_GAP,
               "the largest entry, and so a gap, is no more granules than an entry can say");

static ONSTACK_HANDLER onstack_ring_entry *ring_entry_at(const onstack_ring *ring, uint64_t position) {
  return (onstack_ring_entry *)(void *)(ring->memory + (size_t)(position & ring->mask) * ONSTACK_RING_GRANULE);
}

static ONSTACK_HANDLER uint32_t ring_granules(uint32_t frames, uint32_t label_bytes) {
  uint32_t bytes = (uint32_t)sizeof(onstack_ring_entry) + frames * (uint32_t)(sizeof(uint64_t) + 1) + label_bytes;
  return (bytes + ONSTACK_RING_GRANULE - 1) / ONSTACK_RING_GRANULE;
}

uint32_t onstack_ring_stride(uint32_t depth, uint32_t label_room) {
  return ring_granules(depth, label_room) * ONSTACK_RING_GRANULE;
}

/* Another one for each use of the memory. The top bit is set, so that no word of zeroed memory is a mark: positions do
   not get there. */
static uint64_t ring_new_key(const onstack_ring *ring) {
  struct onstack_timespec now = {0, 0};
  onstack_sys_call2(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now);
  uint64_t x = (uint64_t)(uintptr_t)ring ^ ((uint64_t)now.seconds << 32) ^ (uint64_t)now.nanoseconds;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u; /* splitmix64 */
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) | (uint64_t)1 << 63;
}

void onstack_ring_init(onstack_ring *ring, void *memory, size_t bytes, uint32_t depth, uint32_t label_room) {
  uint32_t granules = 1;
  while ((size_t)granules * 2 * ONSTACK_RING_GRANULE <= bytes && granules < (1u << 30)) granules *= 2;
  ring->memory = memory;
  ring->key = ring_new_key(ring);
  ring->mask = granules - 1;
  ring->most = ring->least = ring_granules(depth, label_room);
  ring->depth = depth;
  ring->label_room = label_room;
  ring->tail = 0;
  ring->head = 0;
}

void onstack_ring_make_room(onstack_ring *ring, uint32_t bytes) {
  onstack_store_relaxed(&ring->most, ring_granules(ring->depth, ring->label_room + 7 + bytes));
}

/* Granules that would lie between `tail` and an entry in one piece. */
static ONSTACK_HANDLER uint64_t ring_gap(const onstack_ring *ring, uint64_t tail, uint32_t most) {
  uint64_t left = ring->mask + 1 - (tail & ring->mask);
  return left < most ? left : 0;
}

static ONSTACK_HANDLER void ring_mark(const onstack_ring *ring, onstack_ring_entry *entry, uint64_t position) {
  onstack_publish(&entry->mark, position ^ ring->key); /* pairs with the observe in onstack_ring_front */
}

ONSTACK_HANDLER onstack_ring_entry *onstack_ring_claim(onstack_ring *ring, uint64_t *position) {
  const uint32_t most = onstack_load_relaxed(&ring->most); /* the entry says what it was */
  uint64_t tail = onstack_load_relaxed(&ring->tail), gap;
  for (;;) {
    gap = ring_gap(ring, tail, most);
    uint64_t end = tail + gap + most;
    int64_t used = (int64_t)(end - onstack_observe(&ring->head)); /* pairs with the publish in onstack_ring_release */
    if (used > (int64_t)ring->mask + 1) return NULL;
    /* Lock-free: a failed swap means that another producer has claimed or given back; the number of rounds is bounded by
       the number of threads in their handlers at this moment. A tail that has gone and come back is as good as before. */
    if (onstack_cas(&ring->tail, &tail, end)) break;
  }
  if (gap > 0) {
    onstack_ring_entry *skipped = ring_entry_at(ring, tail);
    skipped->granules = (uint16_t)(gap | ONSTACK_RING_GAP);
    ring_mark(ring, skipped, tail);
  }
  onstack_ring_entry *entry = ring_entry_at(ring, tail + gap);
  entry->capacity = (uint16_t)ring->depth;
  entry->granules = (uint16_t)most;
  entry->kept = 0;
  entry->label_bytes = 0;
  *position = tail + gap;
  return entry;
}

ONSTACK_HANDLER void onstack_ring_trim(onstack_ring *ring, onstack_ring_entry *entry) {
  const volatile uint8_t *from = onstack_ring_unwound_by(ring, entry);
  entry->capacity = (uint16_t)entry->frame_count;
  volatile uint8_t *to = onstack_ring_unwound_by(ring, entry); /* not behind `from`: bytes may be moved in order */
  if (to == from) return;
  for (uint32_t i = 0; i < entry->frame_count; i++) to[i] = from[i];
}

ONSTACK_HANDLER void onstack_ring_publish_with(onstack_ring *ring, onstack_ring_entry *entry, uint64_t position,
                                               uint32_t more) {
  uint32_t needed = ring_granules(entry->capacity, entry->label_bytes + (more > 0 ? 7 + more : 0));
  uint64_t end = position + entry->granules;
  /* The last claim: as long as it stands, every later one lies behind `end`, so this value means that there is none. */
  if (onstack_cas(&ring->tail, &end, position + needed)) entry->granules = (uint16_t)needed;
  ring_mark(ring, entry, position);
}

ONSTACK_HANDLER bool onstack_ring_is_half_full(const onstack_ring *ring) {
  uint64_t waiting = onstack_load_relaxed(&ring->tail) - onstack_load_relaxed(&ring->head);
  return waiting > (uint64_t)(ring->mask / 2);
}

onstack_ring_entry *onstack_ring_front(onstack_ring *ring) {
  for (;;) {
    uint64_t head = onstack_load_relaxed(&ring->head);
    onstack_ring_entry *entry = ring_entry_at(ring, head);
    if (onstack_observe(&entry->mark) != (head ^ ring->key)) return NULL;
    if (!(entry->granules & ONSTACK_RING_GAP)) return entry;
    onstack_ring_release(ring, entry);
  }
}

onstack_ring_entry *onstack_ring_abandoned(onstack_ring *ring) {
  if (onstack_ring_front(ring)) return NULL;
  const uint64_t head = onstack_load_relaxed(&ring->head);
  return head != onstack_load_relaxed(&ring->tail) ? ring_entry_at(ring, head) : NULL;
}

uint64_t onstack_ring_filled(const onstack_ring *ring) {
  const uint64_t head = onstack_load_relaxed(&ring->head);
  uint64_t at = head;
  while (at - head <= ring->mask) {
    const onstack_ring_entry *entry = ring_entry_at(ring, at);
    if (onstack_observe(&entry->mark) != (at ^ ring->key)) break;
    at += entry->granules & ~ONSTACK_RING_GAP;
  }
  return at;
}

void onstack_ring_release(onstack_ring *ring, onstack_ring_entry *entry) {
  uint64_t head = onstack_load_relaxed(&ring->head);
  uint64_t granules = entry->granules & ~ONSTACK_RING_GAP;
  onstack_publish(&ring->head, head + granules); /* pairs with the observe in onstack_ring_claim */
}
