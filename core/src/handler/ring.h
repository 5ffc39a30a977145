/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sample ring: many producers (signal handlers on any thread), one consumer at a time (drain thread or poll).
 *
 * A bounded queue with a turn number in each entry. A producer claims an entry with one compare-and-swap, fills it
 * in place, and publishes it; it never waits: a full ring is a dropped sample. A producer that is descheduled between
 * claim and publish holds up the consumer at that entry, not other producers.
 *
 * Must not know: sessions, signals, who consumes.
 */
#ifndef ONSTACK_HANDLER_RING_H
#define ONSTACK_HANDLER_RING_H

#include "base/atomics.h"
#include "base/defs.h"

typedef struct onstack_ring_entry {
  uint64_t turn; /* first position of a round: free in that round; that + 1: filled. Positions count up for ever,
                    so fresh zero pages are an empty ring and none of them is touched before it is used */
  uint64_t time_ns;
  uint64_t thread_name[2]; /* 16 bytes, NUL-padded */
  int32_t tid;
  uint32_t weight;
  uint32_t truncation;
  uint32_t frame_count;
  uint32_t label_bytes; /* used */
  uint32_t flags;       /* ONSTACK_SAMPLE_* */
  uint64_t frames[];    /* then one byte a frame, how its caller was found (ONSTACK_BY_*), then room for labels */
} onstack_ring_entry;

typedef struct onstack_ring {
  uint8_t *entries;
  uint32_t stride; /* bytes of an entry */
  uint32_t mask;   /* number of entries - 1; a power of two */
  uint32_t depth;  /* frames an entry has room for */
  uint32_t label_room;
  uint8_t pad0[ONSTACK_CACHE_LINE - 24];
  uint64_t tail; /* next position to claim; producers */
  uint8_t pad1[ONSTACK_CACHE_LINE - 8];
  uint64_t head; /* next position to consume; the consumer writes, producers read it as a hint of the fill level */
  uint8_t pad2[ONSTACK_CACHE_LINE - 8];
} onstack_ring;

/* Bytes that an entry with `depth` frames and `label_room` bytes of labels takes. */
ONSTACK_INTERNAL uint32_t onstack_ring_stride(uint32_t depth, uint32_t label_room);

/* Bytes that a ring in `bytes` bytes of memory really uses: its number of entries is a power of two. */
ONSTACK_INTERNAL size_t onstack_ring_bytes(size_t bytes, uint32_t depth, uint32_t label_room);

/* Lays a ring over `bytes` bytes of zeroed memory (at least two strides); the memory stays the caller's. Start only. */
ONSTACK_INTERNAL void onstack_ring_init(onstack_ring *ring, void *memory, size_t bytes, uint32_t depth,
                                        uint32_t label_room);

static inline __attribute__((always_inline, unused)) uint8_t *onstack_ring_found(const onstack_ring *ring,
                                                                                 onstack_ring_entry *entry) {
  return (uint8_t *)(entry->frames + ring->depth);
}

static inline __attribute__((always_inline, unused)) char *onstack_ring_labels(const onstack_ring *ring,
                                                                               onstack_ring_entry *entry) {
  return (char *)(entry->frames + ring->depth) + ring->depth;
}

/* Claims an entry; NULL when the ring is full. *position goes to onstack_ring_publish. Signal-safe. */
ONSTACK_INTERNAL onstack_ring_entry *onstack_ring_claim(onstack_ring *ring, uint64_t *position);

/* Hands a filled entry to the consumer. Signal-safe. */
ONSTACK_INTERNAL void onstack_ring_publish(onstack_ring *ring, onstack_ring_entry *entry, uint64_t position);

/* True when more than half of the entries wait: time to wake the consumer. Signal-safe; a hint. */
ONSTACK_INTERNAL bool onstack_ring_is_half_full(const onstack_ring *ring);

/* The oldest filled entry, or NULL. It stays claimed until onstack_ring_release. Consumer only. */
ONSTACK_INTERNAL onstack_ring_entry *onstack_ring_front(onstack_ring *ring);

/* Gives the front entry back to the producers. Consumer only. */
ONSTACK_INTERNAL void onstack_ring_release(onstack_ring *ring, onstack_ring_entry *entry);

#endif
