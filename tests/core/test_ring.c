/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sample ring alone: claim, trim, publish, front, release; entries of all lengths; around the end; many producers. */
#include "sampler/ring/ring.h"
#include "support.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ring, .init = t_setup);

#define DEPTH 40u /* 64 + 40 * 9 bytes: 7 granules */
#define MOST 7u

static void *ring_of(onstack_ring *ring, uint32_t granules, uint32_t depth) {
  size_t bytes = (size_t)granules * ONSTACK_RING_GRANULE;
  uint8_t *memory = aligned_alloc(64, bytes);
  for (size_t i = 0; i < bytes; i++) memory[i] = (uint8_t)(i * 7 + i / 251); /* whatever lay there is no entry */
  onstack_ring_init(ring, memory, bytes, depth, 0);
  return memory;
}

Test(ring, its_size_is_a_power_of_two_that_fits) {
  onstack_ring ring;
  for (uint32_t granules = 2; granules < 70; granules++) {
    free(ring_of(&ring, granules, 1));
    uint32_t count = ring.mask + 1;
    cr_assert_eq(count & ring.mask, 0);
    cr_assert(count <= granules && count * 2 > granules, "%u of %u", count, granules);
  }
  cr_assert_eq(onstack_ring_stride(DEPTH, 0), MOST * ONSTACK_RING_GRANULE);
  cr_assert_geq(onstack_ring_stride(1024, 100), 1024 * 9 + 100 + sizeof(onstack_ring_entry));
}

/* An entry with frames, marks and labels that tell whose it is. */
static void fill(onstack_ring *ring, onstack_ring_entry *entry, uint64_t position, uint32_t number, uint32_t frames) {
  uint8_t *unwound_by = onstack_ring_unwound_by(ring, entry);
  entry->weight = number;
  entry->frame_count = frames;
  for (uint32_t f = 0; f < ring->depth; f++) { /* a walk may write more than it returns */
    entry->frames[f] = (uint64_t)number << 32 | f;
    unwound_by[f] = (uint8_t)(number + f);
  }
  onstack_ring_trim(ring, entry);
  onstack_ring_publish(ring, entry, position);
}

static bool put(onstack_ring *ring, uint32_t number, uint32_t frames) {
  uint64_t position;
  onstack_ring_entry *entry = onstack_ring_claim(ring, &position);
  if (entry) fill(ring, entry, position, number, frames);
  return entry;
}

static void check(const onstack_ring *ring, onstack_ring_entry *entry, uint32_t number, uint32_t frames) {
  cr_assert_not_null(entry, "%u", number);
  cr_assert_eq(entry->weight, number);
  cr_assert_eq(entry->frame_count, frames);
  cr_assert_leq((uint8_t *)onstack_ring_labels(ring, entry),
                (uint8_t *)entry + (size_t)entry->granules * ONSTACK_RING_GRANULE);
  for (uint32_t f = 0; f < frames; f++) {
    cr_assert_eq(entry->frames[f], (uint64_t)number << 32 | f);
    cr_assert_eq(onstack_ring_unwound_by(ring, entry)[f], (uint8_t)(number + f));
  }
}

Test(ring, all_lengths_in_order_around_the_end) {
  onstack_ring ring;
  uint8_t *memory = ring_of(&ring, 32, DEPTH);
  uint32_t next = 1, expected = 1;
  for (int round = 0; round < 2000; round++) {
    for (uint32_t i = 0; i < 1 + next % 3; i++, next++)
      cr_assert(put(&ring, next, next * 7 % (DEPTH + 1)), "round %d", round);
    onstack_ring_entry *entry;
    while ((entry = onstack_ring_front(&ring))) {
      check(&ring, entry, expected, expected * 7 % (DEPTH + 1));
      cr_assert_leq((uint8_t *)entry + (size_t)entry->granules * ONSTACK_RING_GRANULE, memory + 32 * ONSTACK_RING_GRANULE);
      onstack_ring_release(&ring, entry);
      expected++;
    }
    cr_assert_eq(expected, next);
  }
  free(memory);
}

/* What the length is for: a ring for four of the largest holds many more small ones, and is then full, not overrun. */
Test(ring, holds_as_many_as_fit) {
  onstack_ring ring;
  void *memory = ring_of(&ring, 32, DEPTH);
  uint32_t held = 0, large = 0;
  while (put(&ring, held + 1, 0)) held++;
  cr_assert_eq(held, 32 - MOST + 1, "one granule each, while the largest would fit: %u", held);
  cr_assert(onstack_ring_is_half_full(&ring));
  for (uint32_t i = 1; i <= held; i++) {
    onstack_ring_entry *entry = onstack_ring_front(&ring);
    check(&ring, entry, i, 0);
    onstack_ring_release(&ring, entry);
  }
  cr_assert_null(onstack_ring_front(&ring));
  cr_assert_not(onstack_ring_is_half_full(&ring));
  while (put(&ring, large + 1, DEPTH)) large++;
  cr_assert_eq(large, 3, "%u, with a gap at the end", large);
  free(memory);
}

Test(ring, an_unpublished_entry_holds_up_the_consumer_and_nobody_else) {
  onstack_ring ring;
  void *memory = ring_of(&ring, 32, DEPTH);
  uint64_t first, second;
  onstack_ring_entry *a = onstack_ring_claim(&ring, &first), *b = onstack_ring_claim(&ring, &second);
  cr_assert_eq(second, MOST);
  fill(&ring, b, second, 2, 3);
  cr_assert_eq(b->granules, 2, "nobody behind it: given back");
  cr_assert_null(onstack_ring_front(&ring), "the older one is not filled yet");
  cr_assert(put(&ring, 3, 5));
  fill(&ring, a, first, 1, 1);
  cr_assert_eq(a->granules, MOST, "others have claimed behind it: it stays as long as it was");
  for (uint32_t i = 1; i <= 3; i++) {
    check(&ring, onstack_ring_front(&ring), i, (const uint32_t[]){0, 1, 3, 5}[i]);
    onstack_ring_release(&ring, onstack_ring_front(&ring));
  }
  cr_assert_null(onstack_ring_front(&ring));
  free(memory);
}

/* ---- many producers, one consumer ---- */

#define PRODUCERS 4
#define EACH 60000u

typedef struct producer {
  pthread_t thread;
  onstack_ring *ring;
  uint32_t number;
  uint64_t full;
} producer;

static void *produce(void *data) {
  producer *p = data;
  for (uint32_t i = 0; i < EACH; i++) {
    uint64_t position;
    onstack_ring_entry *entry;
    while (!(entry = onstack_ring_claim(p->ring, &position))) {
      p->full++;
      if (p->full % 64 == 0) sched_yield();
    }
    entry->tid = (int32_t)p->number;
    entry->weight = i;
    entry->frame_count = i % (p->ring->depth + 1);
    for (uint32_t f = 0; f < p->ring->depth; f++) entry->frames[f] = (uint64_t)p->number << 32 | i;
    onstack_ring_trim(p->ring, entry);
    onstack_ring_publish(p->ring, entry, position);
  }
  return NULL;
}

static void many(uint32_t granules) {
  onstack_ring ring;
  producer producers[PRODUCERS];
  uint32_t next[PRODUCERS] = {0};
  void *memory = ring_of(&ring, granules, DEPTH);
  for (uint32_t i = 0; i < PRODUCERS; i++) {
    producers[i] = (producer){.ring = &ring, .number = i};
    pthread_create(&producers[i].thread, NULL, produce, &producers[i]);
  }
  for (uint64_t got = 0; got < (uint64_t)PRODUCERS * EACH;) {
    onstack_ring_entry *entry = onstack_ring_front(&ring);
    if (!entry) {
      sched_yield();
      continue;
    }
    uint32_t number = (uint32_t)entry->tid;
    cr_assert_lt(number, PRODUCERS);
    cr_assert_eq(entry->weight, next[number], "each producer's own order, none lost, none twice");
    cr_assert_eq(entry->frame_count, next[number] % (DEPTH + 1));
    for (uint32_t f = 0; f < entry->frame_count; f++)
      cr_assert_eq(entry->frames[f], (uint64_t)number << 32 | entry->weight, "no entry is seen half filled");
    next[number]++;
    onstack_ring_release(&ring, entry);
    got++;
  }
  for (uint32_t i = 0; i < PRODUCERS; i++) pthread_join(producers[i].thread, NULL);
  cr_assert_null(onstack_ring_front(&ring));
  free(memory);
}
Test(ring, many_producers_in_a_small_ring) { many(16); }
Test(ring, many_producers_in_a_large_ring) { many(4096); }
