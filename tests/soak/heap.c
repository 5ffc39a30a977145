/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Heap sessions one after another, over the program's own malloc (libonstack-heap.a), while other threads allocate, move and
 * free each other's blocks. The sink keeps books: an end is of a sample that it has had, once, with the same bytes.
 */
#include "soak.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEAP_KNOWN (1u << 16) /* samples whose ends are checked; of later ones only the sums */
#define HEAP_BOXES 256

uint64_t soak_blocks;
soak_heap_sums soak_heap;

/* ---- the sink ---- */

typedef struct heap_books {
  uint64_t base; /* of the first sample's number */
  uint64_t samples, weight, ended, untracked, malformed;
  uint64_t bytes[HEAP_KNOWN]; /* of a sample in use; 0: none */
} heap_books;

static void heap_begins(heap_books *books, const onstack_sample *sample) {
  const bool untracked = (sample->flags & ONSTACK_SAMPLE_UNTRACKED) != 0;
  books->samples++;
  books->weight += sample->weight;
  books->untracked += untracked;
  if (sample->weight == 0 || sample->frame_count == 0 || sample->frames[0] == 0 || (sample->object == 0) != untracked)
    books->malformed++;
  if (sample->object == 0) return;
  if (books->base == 0) books->base = sample->object;
  if (sample->object < books->base) books->malformed++;
  if (sample->object - books->base < HEAP_KNOWN) books->bytes[sample->object - books->base] = sample->value + 1;
}

static void heap_ends(heap_books *books, const onstack_sample *sample) {
  const uint64_t number = sample->object - books->base;
  books->ended++;
  if (books->base == 0 || sample->object < books->base || sample->frame_count != 0) books->malformed++;
  if (number >= HEAP_KNOWN) return;
  if (books->bytes[number] != sample->value + 1) books->malformed++;
  books->bytes[number] = 0;
}

static int heap_take(void *data, const onstack_sample *sample) {
  (sample->flags & ONSTACK_SAMPLE_FREED ? heap_ends : heap_begins)(data, sample);
  return 0;
}

/* ---- sessions ---- */

static const char *heap_wrong(const onstack_stats *stats, const heap_books *books) {
  if (stats->running) return "it runs after stop";
  if (stats->ticks != stats->recorded + stats->dropped_ring_full + stats->dropped_unwinder + stats->dropped_stopping)
    return "the allocations do not add up";
  if (stats->delivered != stats->samples) return "the samples do not add up";
  if (books->weight != stats->recorded || books->samples != stats->samples) return "the sink has got something else";
  if (books->ended + books->untracked > books->samples) return "more ends than beginnings";
  return books->malformed ? "an end without its beginning" : NULL;
}

static void heap_choose(onstack_options *options, unsigned *seed) {
  static const uint32_t intervals[] = {1, 256, 16384, 0};
  options->clock = ONSTACK_CLOCK_HEAP;
  options->heap_interval = intervals[soak_random(seed, 4)];
  options->heap_objects = soak_random(seed, 2) ? 64 : 0;
  options->threads = soak_random(seed, 3) == 0 ? ONSTACK_OFF : ONSTACK_ON;
  options->fork = soak_random(seed, 2) ? ONSTACK_FORK_FOLLOW : ONSTACK_FORK_STOP;
  options->max_depth = 1 + soak_random(seed, 100);
  options->buffer_bytes = 65536u << soak_random(seed, 5);
  options->label_bytes = soak_random(seed, 2) * 64;
}

static const char *heap_session(soak_worker *worker, heap_books *books, int *result) {
  onstack_options options;
  onstack_session *session;
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_options_init(&options, sizeof(options));
  heap_choose(&options, &worker->seed);
  options.sink = heap_take;
  options.sink_data = books;
  if ((*result = onstack_session_start(&options, &session)) != 0) return "start";
  for (double end = soak_now() + 0.001 * soak_random(&worker->seed, 500); soak_now() < end && !soak_resting;) {
    soak_sleep(0.01);
    if (options.threads == ONSTACK_OFF && (*result = onstack_session_poll(session, 0)) < 0) return "poll";
  }
  if ((*result = onstack_session_stop(session)) != 0) return "stop";
  if ((*result = onstack_session_stats(session, &stats)) != 0) return "stats";
  if ((*result = onstack_session_free(session)) != 0) return "free";
  soak_count(&soak_heap.sessions, 1);
  soak_count(&soak_heap.allocations, stats.ticks);
  soak_count(&soak_heap.samples, stats.samples);
  soak_count(&soak_heap.ring_full, stats.dropped_ring_full);
  soak_count(&soak_heap.untracked, stats.heap_untracked);
  soak_count(&soak_heap.ended, books->ended);
  return heap_wrong(&stats, books);
}

void soak_run_heap(soak_worker *worker) {
  heap_books *books = malloc(sizeof(*books));
  while (!soak_resting && books) {
    int result = 0;
    memset(books, 0, sizeof(*books));
    const char *wrong = heap_session(worker, books, &result);
    if (wrong && (result == -EAGAIN || result == ONSTACK_E_SESSIONS))
      soak_count(&soak_sessions.refused, 1);
    else if (wrong)
      soak_fail("a heap session: %s (%d: %s)", wrong, result, onstack_strerror(result));
    soak_beat(worker);
  }
  free(books);
}

/* ---- the storm ---- */

typedef struct heap_block {
  size_t size;
  unsigned char first, last[];
} heap_block;

static heap_block *volatile heap_boxes[HEAP_BOXES];

static size_t heap_size(unsigned *seed) {
  const uint32_t kind = soak_random(seed, 100);
  return sizeof(heap_block) + 1 + soak_random(seed, kind < 90 ? 500 : kind < 99 ? 20000 : 1 << 20);
}

static heap_block *heap_fill(heap_block *block, size_t size) {
  if (!block) return NULL;
  block->size = size;
  block->first = block->last[size - sizeof(*block) - 1] = (unsigned char)size;
  return block;
}

static void heap_check(const heap_block *block) {
  if (block->first != (unsigned char)block->size || block->last[block->size - sizeof(*block) - 1] != block->first)
    soak_fail("a block of %zu bytes is not what it was", block->size);
}

static heap_block *heap_allocate(unsigned *seed) {
  const size_t size = heap_size(seed);
  void *block = NULL;
  switch (soak_random(seed, 5)) {
  case 0:
    block = calloc(1, size);
    for (size_t i = 0; block && i < size; i += 97)
      if (((char *)block)[i] != 0) soak_fail("memory of %zu bytes is not zero", size);
    break;
  case 1:
    if (posix_memalign(&block, (size_t)8 << soak_random(seed, 12), size) != 0) block = NULL;
    break;
  case 2:
    block = realloc(malloc(10), size);
    break;
  default:
    block = malloc(size);
  }
  return heap_fill(block, size);
}

static heap_block *heap_move(heap_block *block, unsigned *seed) {
  const size_t size = heap_size(seed), had = block->size;
  heap_block *moved = realloc(block, size);
  if (!moved) return block;
  if (moved->size != had) soak_fail("a block of %zu bytes has lost its beginning in a realloc", had);
  return heap_fill(moved, size);
}

void soak_storm_once(unsigned *seed) {
  heap_block *block = heap_allocate(seed);
  if (!block) return;
  block = __atomic_exchange_n(&heap_boxes[soak_random(seed, HEAP_BOXES)], block, __ATOMIC_ACQ_REL);
  soak_count(&soak_blocks, 1);
  if (!block) return;
  heap_check(block);
  if (soak_random(seed, 3) == 0) block = heap_move(block, seed);
  heap_check(block);
  free(block);
}

/*
 * What a child inherits is no picture of one instant: the kernel copies a page at once that process_vm_readv has pinned for
 * somebody (mm/memory.c, copy_present_page), and all others when they are next written, while the parent's threads still
 * write through what their processors remember. A box and its block then differ: 3 of 28,290 children of a program without
 * this library whose boxes were read all the time, 0 of 109,008 where nobody read.
 */
void soak_storm_forget(void) {
  for (int i = 0; i < HEAP_BOXES; i++) heap_boxes[i] = NULL;
}

void soak_run_storm(soak_worker *worker) {
  while (!soak_resting) {
    for (int i = 0; i < 500; i++) soak_storm_once(&worker->seed);
    soak_beat(worker);
    soak_sleep(0.0001 * soak_random(&worker->seed, 20));
  }
  for (int i = 0; i < HEAP_BOXES && worker->number == 0; i++)
    free(__atomic_exchange_n(&heap_boxes[i], NULL, __ATOMIC_ACQ_REL));
}
