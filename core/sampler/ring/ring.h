/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sample ring: many producers (signal handlers on any thread), one consumer at a time (drain thread or poll).
 *
 * Entries are as long as their stack. A producer claims room for the largest one by one compare-and-swap on `tail`,
 * fills the entry in place, gives back what it did not need (if nobody has claimed behind it meanwhile; else the entry
 * stays as long as it was), and publishes. It never waits: a full ring is a dropped sample. A producer that is
 * descheduled between claim and publish holds up the consumer at that entry, not other producers.
 *
 * Positions count granules up for ever. An entry is filled when its first word is its position, disguised by the ring's
 * key: so whatever lies there from earlier rounds, or from a claim that was given back, is no such word, and nothing has
 * to be cleared. An entry lies in one piece: what is left before the end of the memory is a gap to be
 * skipped.
 *
 * Must not know: sessions, signals, who consumes.
 */
#ifndef ONSTACK_SAMPLER_RING_RING_H
#define ONSTACK_SAMPLER_RING_RING_H

#include "platform/atomics.h"
#include "platform/defs.h"

#define ONSTACK_RING_GRANULE 64u /* bytes; the unit of positions, and of where entries begin */
#define ONSTACK_RING_GAP 0x8000u /* in `granules`: no entry, to be skipped */

typedef struct onstack_ring_entry {
  uint64_t mark; /* the position under the key: filled; anything else: not yet */
  uint64_t time_ns;
  uint64_t thread_name[2]; /* 16 bytes, NUL-padded */
  uint64_t value;
  uint32_t weight;
  int32_t tid;
  uint32_t map_sequence; /* of the module map, before the walk (sampler/unwind/rules.h) */
  uint16_t frame_count;
  uint16_t label_bytes; /* used */
  uint16_t capacity;    /* frames that there is room for */
  uint16_t granules;    /* that the entry takes, or that were claimed for it; ONSTACK_RING_GAP */
  uint8_t kind;         /* ONSTACK_KIND_* */
  uint8_t truncation;
  uint8_t flags;     /* ONSTACK_SAMPLE_* */
  uint8_t kept;      /* the stack that is to be walked again, from 1 on (sampler/ring/kept.h); 0: none */
  uint64_t frames[]; /* then one byte a frame, by what it was unwound (ONSTACK_BY_*), then labels */
} onstack_ring_entry;

typedef struct onstack_ring {
  uint8_t *memory;
  uint64_t key;
  uint32_t mask;  /* granules - 1; a power of two */
  uint32_t most;  /* granules that a claim takes (atomic: onstack_ring_make_room) */
  uint32_t depth; /* frames that a claimed entry has room for */
  uint32_t label_room;
  uint32_t least; /* of these, what an entry without more behind its labels needs */
  uint8_t pad0[ONSTACK_CACHE_LINE - 36];
  uint64_t tail; /* next position to claim; producers */
  uint8_t pad1[ONSTACK_CACHE_LINE - 8];
  uint64_t head; /* next position to consume; the consumer publishes, producers observe */
  uint8_t pad2[ONSTACK_CACHE_LINE - 8];
} onstack_ring;

/* Bytes of the largest entry with `depth` frames and `label_room` bytes of labels. */
ONSTACK_INTERNAL uint32_t onstack_ring_stride(uint32_t depth, uint32_t label_room);

/* Lays a ring over memory (at least two strides; the largest power of two of it is used), which stays the caller's.
   Start only. */
ONSTACK_INTERNAL void onstack_ring_init(onstack_ring *ring, void *memory, size_t bytes, uint32_t depth, uint32_t label_room);

/* Entries that are claimed from here on have room for `bytes` more behind their labels. The consumer, or start. */
ONSTACK_INTERNAL void onstack_ring_make_room(onstack_ring *ring, uint32_t bytes);

static inline __attribute__((always_inline, unused)) uint8_t *onstack_ring_unwound_by(const onstack_ring *ring,
                                                                                      onstack_ring_entry *entry) {
  (void)ring;
  return (uint8_t *)(entry->frames + entry->capacity);
}

static inline __attribute__((always_inline, unused)) char *onstack_ring_labels(const onstack_ring *ring,
                                                                               onstack_ring_entry *entry) {
  return (char *)onstack_ring_unwound_by(ring, entry) + entry->capacity;
}

/* Whether a claimed entry has that room. Signal-safe. */
static inline __attribute__((always_inline, unused)) bool onstack_ring_has_more(const onstack_ring *ring,
                                                                                const onstack_ring_entry *claimed) {
  return claimed->granules > ring->least;
}

/* What lies behind the labels that an entry has now, aligned. */
static inline __attribute__((always_inline, unused)) void *onstack_ring_more(const onstack_ring *ring,
                                                                             onstack_ring_entry *entry) {
  uint8_t *end = (uint8_t *)onstack_ring_labels(ring, entry) + entry->label_bytes;
  return end + (-(uintptr_t)end & 7);
}

/* Claims an entry with room for `depth` frames; NULL when the ring is full. *position goes to onstack_ring_publish.
   Signal-safe. */
ONSTACK_INTERNAL onstack_ring_entry *onstack_ring_claim(onstack_ring *ring, uint64_t *position);

/* The frames are there: moves what stands behind them up to the last one. Labels come after this. Signal-safe. */
ONSTACK_INTERNAL void onstack_ring_trim(onstack_ring *ring, onstack_ring_entry *entry);

/* Hands a filled entry to the consumer. `more`: bytes that are used behind the labels. Signal-safe. */
ONSTACK_INTERNAL void onstack_ring_publish_with(onstack_ring *ring, onstack_ring_entry *entry, uint64_t position,
                                                uint32_t more);

static inline __attribute__((always_inline, unused)) void onstack_ring_publish(onstack_ring *ring, onstack_ring_entry *entry,
                                                                               uint64_t position) {
  onstack_ring_publish_with(ring, entry, position, 0);
}

/* True when more than half of the ring waits: time to wake the consumer. Signal-safe; a hint. */
ONSTACK_INTERNAL bool onstack_ring_is_half_full(const onstack_ring *ring);

/* The oldest filled entry, or NULL. It stays claimed until onstack_ring_release. Consumer only. */
ONSTACK_INTERNAL onstack_ring_entry *onstack_ring_front(onstack_ring *ring);

static inline __attribute__((unused)) uint64_t onstack_ring_position(const onstack_ring *ring,
                                                                     const onstack_ring_entry *filled) {
  return filled->mark ^ ring->key;
}

/* The position behind the entries that are filled by now, without a gap from the front on. Consumer only. */
ONSTACK_INTERNAL uint64_t onstack_ring_filled(const onstack_ring *ring);

/* Returns the front entry if it is claimed and not filled, else NULL. Its producer has ended; kind, weight and value are set.
   Consumer only, while no living producer is inside. */
ONSTACK_INTERNAL onstack_ring_entry *onstack_ring_abandoned(onstack_ring *ring);

/* Gives the front entry back to the producers. Consumer only. */
ONSTACK_INTERNAL void onstack_ring_release(onstack_ring *ring, onstack_ring_entry *entry);

#endif
