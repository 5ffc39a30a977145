/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sampled allocations that have not been freed, by address. Bounded, without a lock and without an allocation for the
 * host's threads: an address has its places in one window of the table, and where all are taken the allocation is not
 * tracked, which is counted.
 *
 * Nearly every free is of a block that was not sampled. A counting filter says so by one byte: blocks that lie beside each
 * other have their bytes beside each other, so that these are in the cache when the blocks' owners are.
 *
 * A place goes from free to claimed to live by the allocating thread, from live to freed by whoever frees (one of them wins
 * the exchange), and back to free by the consumer, once it has told the sink. So an end is never lost, however slow the
 * sink. Nobody else frees an address that is still allocated, so a live place is not another's by the time of the exchange.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_LIVE_H
#define ONSTACK_SAMPLER_SOURCE_LIVE_H

#include "platform/atomics.h"
#include "platform/defs.h"

#define ONSTACK_LIVE_WINDOW 32u /* places of an address */
#define ONSTACK_LIVE_FILTER 2u
#define ONSTACK_LIVE_NONE UINT32_MAX

/* What the consumer tells of an end. */
typedef struct onstack_live_note {
  uint64_t position; /* of its sample in the ring */
  uint64_t bytes;
  uint32_t objects;
  int32_t tid;
} onstack_live_note;

typedef struct onstack_live_table {
  uint64_t *addresses; /* 0: none */
  onstack_live_note *notes;
  uint8_t *states;
  uint8_t
      *filter; /* how many places that are claimed or live have an address of this byte's; 255: so many at least, for good */
  void *memory; /* what the four lie in; kept for ever, without pages while no session runs */
  size_t bytes;
  uint32_t mask;  /* places - 1; only grows, and is published behind the pointers: a look without a visit may meet a start */
  uint64_t freed; /* places that went from live to freed */
  uint64_t reused; /* of these, whose address was given out again before anybody said that it is free */
  uint64_t untracked;
} onstack_live_table;

ONSTACK_INTERNAL_DATA onstack_live_table onstack_live;

/* An empty table for so many allocations. 0, -ENOMEM. Start only. */
ONSTACK_INTERNAL int onstack_live_make(uint32_t objects);
/* Gives its pages back. Stop only, when no thread can be inside. */
ONSTACK_INTERNAL void onstack_live_drop(void);

/* Any thread, signal-safe, inside a visit of the session (sampler/session/record.h). */
ONSTACK_INTERNAL uint32_t onstack_live_claim(uint64_t address); /* ONSTACK_LIVE_NONE: no room, counted */
ONSTACK_INTERNAL void onstack_live_begin(uint32_t place, const onstack_live_note *note);
/* Whether it is live. Also without a visit, as onstack_live_may_have: the table stays mapped. */
ONSTACK_INTERNAL bool onstack_live_has(uint64_t address);
/* True if it was live. */
ONSTACK_INTERNAL bool onstack_live_end(uint64_t address);

/* What the live ones stand for. Any thread, while the session runs; begins and ends meanwhile may be in it or not. */
ONSTACK_INTERNAL uint64_t onstack_live_bytes(void);

static inline uint32_t onstack_live_filter_mask(void) {
  return ONSTACK_LIVE_FILTER * (onstack_observe(&onstack_live.mask) + 1) - 1; /* before the pointers */
}

/* As onstack.h says of onstack_heap_state, for allocators. */
static inline uint8_t *onstack_live_filter(uint64_t address) {
  const uint32_t mask = onstack_live_filter_mask();
  return &onstack_load_relaxed(&onstack_live.filter)[(address >> 6 ^ address >> 12) & mask];
}

/* False: an address is not live. Any thread, signal-safe, also without a visit: then only the thread that has it knows; it
   has the count of the block's begin, or got the block by an order of the host's that carries it. */
static inline bool onstack_live_may_have(uint64_t address) {
  return onstack_load_relaxed(onstack_live_filter(address)) != 0;
}

/* The next freed place from `from` on whose sample lies below `position`; ONSTACK_LIVE_NONE: none. Consumer only. */
ONSTACK_INTERNAL uint32_t onstack_live_next_freed(uint32_t from, uint64_t position);
/* Free again: the consumer, of a freed place; or the claimer, without a begin. */
ONSTACK_INTERNAL void onstack_live_release(uint32_t place);

/* ---- which bytes are sampled ---- */

/*
 * Which bytes are sampled: distances from one sample to the next, drawn so that each byte has the same chance, and what a
 * sampled allocation stands for. Arithmetic of our own: libm is no dependency, and it may set errno.
 */
/* What one sampled allocation stands for. */
typedef struct onstack_draw_weight {
  uint32_t objects; /* at least 1 */
  uint64_t bytes;
} onstack_draw_weight;

/* Spreads the bits of a number over all bits of the result, which is never 0: a seed, or a hash. */
ONSTACK_INTERNAL uint64_t onstack_draw_mix(uint64_t from);

/* Bytes before the one that is sampled next, 0 and more; exponentially distributed around `interval`. */
ONSTACK_INTERNAL uint64_t onstack_draw_distance(uint64_t *random, uint32_t interval);

/*
 * An allocation of `size` bytes is sampled with the chance p = 1 - exp(-size / interval); so it stands for 1 / p objects and
 * size / p bytes. Both are rounded up or down by chance, so that sums are right. With an interval of 1: for itself.
 */
ONSTACK_INTERNAL onstack_draw_weight onstack_draw_weight_of(uint64_t *random, size_t size, uint32_t interval);

#endif
