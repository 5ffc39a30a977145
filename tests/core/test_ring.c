/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sample ring alone: claim, publish, front, release; around the wrap; many producers. */
#include "handler/ring.h"
#include "support.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ring, .init = t_setup);

static void *ring_of(onstack_ring *ring, uint32_t entries, uint32_t depth) {
  size_t bytes = (size_t)entries * onstack_ring_stride(depth, 0);
  void *memory = aligned_alloc(64, bytes);
  memset(memory, 0, bytes);
  onstack_ring_init(ring, memory, bytes, depth, 0);
  return memory;
}

Test(ring, its_size_is_a_power_of_two_that_fits) {
  onstack_ring ring;
  for (uint32_t entries = 2; entries < 40; entries++) {
    free(ring_of(&ring, entries, 8));
    uint32_t count = ring.mask + 1;
    cr_assert_eq(count & ring.mask, 0);
    cr_assert(count <= entries && count * 2 > entries, "%u of %u", count, entries);
  }
  cr_assert_eq(onstack_ring_stride(1, 0) % 64, 0);
  cr_assert_geq(onstack_ring_stride(1024, 0), 1024 * sizeof(uint64_t) + sizeof(onstack_ring_entry));
}

Test(ring, fills_empties_and_wraps_in_order) {
  onstack_ring ring;
  void *memory = ring_of(&ring, 4, 4);
  uint32_t next = 0, expected = 0;
  for (int round = 0; round < 50; round++) {
    onstack_ring_entry *entry;
    uint64_t position;
    int fill = 1 + round % 4;
    for (int i = 0; i < fill; i++) {
      cr_assert_not_null(entry = onstack_ring_claim(&ring, &position), "round %d, entry %d", round, i);
      entry->weight = next++;
      onstack_ring_publish(&ring, entry, position);
    }
    if (fill == 4) cr_assert_null(onstack_ring_claim(&ring, &position), "full");
    cr_assert_eq(onstack_ring_is_half_full(&ring), fill > 1);
    while ((entry = onstack_ring_front(&ring))) {
      cr_assert_eq(entry->weight, expected++);
      onstack_ring_release(&ring, entry);
    }
    cr_assert_eq(expected, next);
  }
  free(memory);
}

Test(ring, an_unpublished_entry_holds_up_the_consumer_and_nobody_else) {
  onstack_ring ring;
  void *memory = ring_of(&ring, 4, 4);
  uint64_t first, second, third, fourth, fifth;
  onstack_ring_entry *a = onstack_ring_claim(&ring, &first), *b = onstack_ring_claim(&ring, &second);
  b->weight = 2;
  onstack_ring_publish(&ring, b, second);
  cr_assert_null(onstack_ring_front(&ring), "the older one is not filled yet");
  cr_assert_not_null(onstack_ring_claim(&ring, &third));
  cr_assert_not_null(onstack_ring_claim(&ring, &fourth));
  cr_assert_null(onstack_ring_claim(&ring, &fifth));
  a->weight = 1;
  onstack_ring_publish(&ring, a, first);
  cr_assert_eq(onstack_ring_front(&ring)->weight, 1);
  cr_assert_eq(onstack_ring_front(&ring), a, "it stays in front until it is released");
  onstack_ring_release(&ring, a);
  cr_assert_eq(onstack_ring_front(&ring), b);
  cr_assert_eq(onstack_ring_claim(&ring, &fifth), a, "released: claimed again");
  cr_assert_eq(fifth, 4);
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
    entry->frame_count = p->ring->depth;
    for (uint32_t f = 0; f < p->ring->depth; f++) entry->frames[f] = (uint64_t)p->number << 32 | i;
    onstack_ring_publish(p->ring, entry, position);
  }
  return NULL;
}

static void many(uint32_t entries) {
  onstack_ring ring;
  producer producers[PRODUCERS];
  uint32_t next[PRODUCERS] = {0};
  void *memory = ring_of(&ring, entries, 6);
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
    for (uint32_t f = 0; f < 6; f++)
      cr_assert_eq(entry->frames[f], (uint64_t)number << 32 | entry->weight, "no entry is seen half filled");
    next[number]++;
    onstack_ring_release(&ring, entry);
    got++;
  }
  for (uint32_t i = 0; i < PRODUCERS; i++) pthread_join(producers[i].thread, NULL);
  cr_assert_null(onstack_ring_front(&ring));
  free(memory);
}
Test(ring, many_producers_in_a_small_ring) { many(2); }
Test(ring, many_producers_in_a_large_ring) { many(1024); }
