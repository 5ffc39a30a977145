/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The malloc of libonstack-heap.a, linked into this program: blocks that are older than a session or outlive it, sessions one
   after another, and large blocks. */
#include "support.h"
#include "test_profile_support.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(heap_malloc, .init = t_setup);

#define APART __attribute__((noipa, optimize("no-optimize-sibling-calls")))
#define MIB ((size_t)1 << 20)

static onstack_session *malloc_start(onstack_profile *profile, uint32_t interval) {
  onstack_options options;
  cr_assert_eq(onstack_options_init(&options, sizeof(options)), 0);
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = interval;
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  return t_start(&options);
}

static bool has_function(const decoded *out, const d_sample *sample, const char *name) {
  for (size_t l = 0; l < sample->location_count; l++) {
    const d_location *location = d_find_location(out, sample->locations[l]);
    for (size_t i = 0; i < location->line_count; i++)
      if (strcmp(d_text(out, d_find_function(out, location->lines[i].function)->name), name) == 0) return true;
  }
  return false;
}

typedef struct books {
  int64_t objects, bytes, inuse_objects, inuse_bytes;
} books;

static books books_of(onstack_profile *profile, const char *function) {
  books sums = {0};
  decoded *out = write_and_decode(profile, NULL);
  for (size_t i = 0; i < out->sample_count; i++) {
    const d_sample *sample = &out->samples[i];
    if (!has_function(out, sample, function)) continue;
    sums.objects += (int64_t)sample->values[0];
    sums.bytes += (int64_t)sample->values[1];
    sums.inuse_objects += (int64_t)sample->values[2];
    sums.inuse_bytes += (int64_t)sample->values[3];
  }
  decoded_free(out);
  return sums;
}

static void same_books(onstack_profile *profile, const char *function, books wanted) {
  const books found = books_of(profile, function);
  cr_expect_eq(found.objects, wanted.objects, "%s: %ld blocks, not %ld", function, (long)found.objects,
               (long)wanted.objects);
  cr_expect_eq(found.bytes, wanted.bytes, "%s: %ld bytes, not %ld", function, (long)found.bytes, (long)wanted.bytes);
  cr_expect_eq(found.inuse_objects, wanted.inuse_objects, "%s: %ld blocks in use, not %ld", function,
               (long)found.inuse_objects, (long)wanted.inuse_objects);
  cr_expect_eq(found.inuse_bytes, wanted.inuse_bytes, "%s: %ld bytes in use, not %ld", function, (long)found.inuse_bytes,
               (long)wanted.inuse_bytes);
}

static void *volatile blocks[100];

APART static void older(void) {
  for (int i = 0; i < 100; i++) blocks[i] = malloc(1000);
}
APART static void grows(size_t from, size_t to, size_t size) {
  for (size_t i = from; i < to; i++) blocks[i] = realloc(blocks[i], size);
}
APART static void frees(size_t from, size_t to) {
  for (size_t i = from; i < to; i++) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

Test(heap_malloc, blocks_outlive_sessions_and_sessions_meet_older_blocks) {
  onstack_profile *first = profile_of(NULL), *second = profile_of(NULL);
  older();
  onstack_session *session = malloc_start(first, 1);
  frees(0, 10);        /* nobody's */
  grows(10, 30, 2000); /* these 20 begin here */
  frees(10, 20);
  t_finish(session);
  same_books(first, "grows", (books){20, 40000, 10, 20000});
  same_books(first, "older", (books){0});
  frees(20, 22); /* behind the stop: the first profile keeps them */
  grows(22, 24, 9000);
  session = malloc_start(second, 1);
  grows(24, 28, 3000);
  frees(20, 100);
  older();
  t_finish(session);
  same_books(first, "grows", (books){20, 40000, 10, 20000});
  same_books(second, "grows", (books){4, 12000, 0, 0});
  same_books(second, "older", (books){100, 100000, 100, 100000});
  frees(0, 100);
  onstack_profile_free(first);
  onstack_profile_free(second);
}

/* C23's, not in the headers of this libc. */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

APART static void ends_by_size(void) {
  for (int i = 0; i < 100; i++) blocks[i] = i % 2 ? malloc(1000) : aligned_alloc(256, 1024);
  for (int i = 0; i < 90; i++)
    if (i % 2)
      free_sized(blocks[i], 1000);
    else
      free_aligned_sized(blocks[i], 256, 1024);
  free_sized(NULL, 0);
  free_aligned_sized(NULL, 64, 0);
}

static int keeps(void *data, const onstack_sample *sample) {
  (void)sample;
  blocks[(*(size_t *)data)++ % 100] = malloc(3000);
  return 0;
}

/* What a sink of the host's takes is the host's; what this library takes on the host's thread is not. */
APART static void profiles_itself(void) {
  onstack_options options = t_options(100, NULL, NULL);
  onstack_profile *profile, *taken;
  size_t kept = 0;
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  onstack_session *session = t_start(&options);
  t_burn(0.05);
  t_finish(session);
  cr_assert_eq(onstack_profile_take(profile, &taken), 0);
  onstack_profile_free(taken);
  onstack_profile_free(profile);
  options.sink = keeps;
  options.sink_data = &kept;
  options.threads = ONSTACK_OFF;
  session = t_start(&options);
  t_burn(0.1);
  cr_assert_geq(onstack_session_poll(session, 100), 1);
  t_finish(session);
  for (int i = 0; i < 100; i++) free(blocks[i]);
}

Test(heap_malloc, what_a_session_takes_for_itself_is_left_out) {
  onstack_profile *profile;
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  onstack_session *session = malloc_start(profile, 1);
  profiles_itself();
  t_finish(session);
  const books sinks = books_of(profile, "keeps");
  cr_assert(sinks.objects >= 5 && sinks.bytes == sinks.objects * 3000, "%ld blocks", (long)sinks.objects);
  same_books(profile, "profiles_itself", sinks);
  onstack_profile_free(profile);
}

Test(heap_malloc, sized_frees_are_ends) {
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = malloc_start(profile, 1);
  ends_by_size();
  t_finish(session);
  same_books(profile, "ends_by_size", (books){100, 50 * 2024, 10, 5 * 2024});
  frees(90, 100);
  onstack_profile_free(profile);
}

APART static void large_calloc(void) { blocks[0] = calloc(64, MIB); }
APART static void large_realloc(void) {
  blocks[1] = malloc(MIB);
  for (size_t i = 2; i <= 64; i++) blocks[1] = realloc(blocks[1], i * MIB);
}
APART static void large_shrinks(void) { blocks[2] = realloc(malloc(8 * MIB), 300000); }

/* With the default interval each block of so many is sampled, for certain. */
Test(heap_malloc, large_blocks_are_whole) {
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = malloc_start(profile, 0);
  large_calloc();
  large_realloc();
  for (size_t i = 0; i < 64 * MIB; i += 4096) cr_assert_eq(((char *)blocks[0])[i], 0);
  frees(0, 1);
  large_calloc();
  t_finish(session);
  same_books(profile, "large_calloc", (books){2, 128 * MIB, 1, 64 * MIB});
  const books grown = books_of(profile, "large_realloc");
  cr_assert_eq(grown.inuse_bytes, 64 * MIB, "%ld", (long)grown.inuse_bytes);
  frees(0, 2);
  onstack_profile_free(profile);
}

Test(heap_malloc, every_size_is_whole_with_an_interval_of_1) {
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = malloc_start(profile, 1);
  large_calloc();
  large_realloc();
  large_shrinks();
  t_finish(session);
  same_books(profile, "large_calloc", (books){1, 64 * MIB, 1, 64 * MIB});
  same_books(profile, "large_realloc", (books){64, 65 * 32 * MIB, 1, 64 * MIB});
  same_books(profile, "large_shrinks", (books){2, 8 * MIB + 300000, 1, 300000});
  frees(0, 3);
  onstack_profile_free(profile);
}

/* ---- a handler that leaves a call ---- */

static sigjmp_buf leaving;
static void leave(int signal) {
  (void)signal;
  siglongjmp(leaving, 1);
}

/* Zeroing meets a page that is not to be written. */
static bool calloc_is_left(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 20 * page;
  char *block = malloc(size), *volatile behind =
                                  malloc(100); /* so that it is given again, and not grown from what is free */
  char *middle = (char *)(((uintptr_t)block + 10 * page) & ~(page - 1));
  free(block);
  cr_assert_eq(mprotect(middle, page, PROT_NONE), 0);
  const bool left = sigsetjmp(leaving, 1) != 0;
  if (!left) blocks[99] = calloc(1, size);
  cr_assert_eq(mprotect(middle, page, PROT_READ | PROT_WRITE), 0);
  free(behind);
  return left;
}

APART static void behind_the_jump(void) {
  for (int i = 0; i < 90; i++) blocks[i] = i % 2 ? malloc(1000) : calloc(10, 100);
}

Test(heap_malloc, a_call_that_a_handler_leaves_does_not_hide_what_comes) {
  onstack_profile *profile = profile_of(NULL);
  struct sigaction action = {.sa_handler = leave}, before;
  sigaction(SIGSEGV, &action, &before);
  onstack_session *session = malloc_start(profile, 1);
  for (int i = 0; i < 3; i++) cr_assert(calloc_is_left());
  sigaction(SIGSEGV, &before, NULL);
  behind_the_jump();
  t_finish(session);
  const books found = books_of(profile, "behind_the_jump");
  cr_expect_geq(found.objects, 90 - 4, "%ld blocks of 90", (long)found.objects);
  frees(0, 90);
  onstack_profile_free(profile);
}

/* ---- starts and stops while other threads allocate, free each other's blocks and move them ---- */

#define STORM_THREADS 4
static volatile bool storm_goes_on;
static void *volatile storm_mailbox[64];

static void *storm(void *unused) {
  unsigned seed = (unsigned)(uintptr_t)&unused;
  while (storm_goes_on) {
    const size_t size = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 50 == 0 ? 400000 : 2000);
    unsigned char *block = rand_r(&seed) % 2 ? malloc(size) : calloc(1, size);
    block[0] = block[size - 1] = 1;
    if (rand_r(&seed) % 3 == 0) block = realloc(block, size + 5000);
    block = __atomic_exchange_n(&storm_mailbox[rand_r(&seed) % 64], block, __ATOMIC_ACQ_REL);
    if (block && block[0] != 1) abort();
    free(block);
  }
  return NULL;
}

Test(heap_malloc, starts_and_stops_in_a_storm) {
  pthread_t threads[STORM_THREADS];
  storm_goes_on = true;
  for (int i = 0; i < STORM_THREADS; i++) pthread_create(&threads[i], NULL, storm, NULL);
  for (unsigned round = 0; round < 30 * t_repeat(); round++) {
    onstack_profile *profile = profile_of(NULL);
    onstack_session *session = malloc_start(profile, round % 3 == 0 ? 1 : 4096);
    t_sleep(0.002);
    const onstack_stats stats = t_finish(session);
    t_check_accounting(&stats);
    onstack_profile_free(profile);
  }
  storm_goes_on = false;
  for (int i = 0; i < STORM_THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 64; i++) free(storm_mailbox[i]);
}
