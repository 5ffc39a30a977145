/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/ring.h"

static ONSTACK_HANDLER onstack_ring_entry *ring_entry_at(const onstack_ring *ring, uint64_t position) {
  return (onstack_ring_entry *)(void *)(ring->entries + (size_t)(position & ring->mask) * ring->stride);
}

uint32_t onstack_ring_stride(uint32_t depth, uint32_t label_room) {
  uint32_t bytes = (uint32_t)(sizeof(onstack_ring_entry) + (size_t)depth * (sizeof(uint64_t) + 1)) + label_room;
  return (bytes + ONSTACK_CACHE_LINE - 1) & ~(uint32_t)(ONSTACK_CACHE_LINE - 1);
}

static uint32_t ring_count(size_t bytes, uint32_t stride) {
  uint32_t count = 1;
  while ((size_t)count * 2 * stride <= bytes && count < (1u << 30)) count *= 2;
  return count;
}

size_t onstack_ring_bytes(size_t bytes, uint32_t depth, uint32_t label_room) {
  uint32_t stride = onstack_ring_stride(depth, label_room);
  return (size_t)ring_count(bytes, stride) * stride;
}

void onstack_ring_init(onstack_ring *ring, void *memory, size_t bytes, uint32_t depth, uint32_t label_room) {
  ring->entries = memory;
  ring->stride = onstack_ring_stride(depth, label_room);
  ring->depth = depth;
  ring->label_room = label_room;
  ring->mask = ring_count(bytes, ring->stride) - 1;
  ring->tail = 0;
  ring->head = 0;
}

/* The first position of the round that `position` belongs to. */
static ONSTACK_HANDLER uint64_t ring_round(const onstack_ring *ring, uint64_t position) {
  return position & ~(uint64_t)ring->mask;
}

ONSTACK_HANDLER onstack_ring_entry *onstack_ring_claim(onstack_ring *ring, uint64_t *position) {
  uint64_t tail = onstack_load_relaxed(&ring->tail);
  for (;;) {
    onstack_ring_entry *entry = ring_entry_at(ring, tail);
    int64_t lag = (int64_t)(onstack_observe(&entry->turn) - ring_round(ring, tail)); /* pairs with release */
    if (lag < 0) return NULL; /* still filled from one round ago: full */
    if (lag > 0) {            /* another producer was here */
      tail = onstack_load_relaxed(&ring->tail);
      continue;
    }
    /* Lock-free: a failed swap means that another producer has advanced; the number of rounds is bounded by the
       number of threads in their handlers at this moment. */
    if (onstack_cas(&ring->tail, &tail, tail + 1)) {
      *position = tail;
      return entry;
    }
  }
}

ONSTACK_HANDLER void onstack_ring_publish(onstack_ring *ring, onstack_ring_entry *entry, uint64_t position) {
  onstack_publish(&entry->turn, ring_round(ring, position) + 1); /* pairs with the observe in onstack_ring_front */
}

ONSTACK_HANDLER bool onstack_ring_is_half_full(const onstack_ring *ring) {
  uint64_t waiting = onstack_load_relaxed(&ring->tail) - onstack_load_relaxed(&ring->head);
  return waiting > (uint64_t)(ring->mask / 2);
}

onstack_ring_entry *onstack_ring_front(onstack_ring *ring) {
  uint64_t head = onstack_load_relaxed(&ring->head);
  onstack_ring_entry *entry = ring_entry_at(ring, head);
  return onstack_observe(&entry->turn) == ring_round(ring, head) + 1 ? entry : NULL;
}

void onstack_ring_release(onstack_ring *ring, onstack_ring_entry *entry) {
  uint64_t head = onstack_load_relaxed(&ring->head);
  onstack_publish(&entry->turn, ring_round(ring, head) + ring->mask + 1); /* pairs with the observe in onstack_ring_claim */
  onstack_store_relaxed(&ring->head, head + 1);
}
