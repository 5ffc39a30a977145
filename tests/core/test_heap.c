/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Heap sessions: counts against exact counts, ends, limits, fork, stop, and the signal that they leave alone. */
#include "support.h"
#include "test_profile_support.h"

#include "sampler/source/live.h"
#include "onstack/heap.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

TestSuite(heap, .init = t_setup);

static onstack_session *heap_start(onstack_profile *profile, uint32_t interval, uint32_t objects) {
  onstack_options options;
  cr_assert_eq(onstack_options_init(&options, sizeof(options)), 0);
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = interval;
  options.heap_objects = objects;
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  return t_start(&options);
}

/* Stands for an allocator: an address that nobody has. */
static uint64_t heap_next = 0x100000000000u;
static void *heap_give(size_t size) {
  void *address = (void *)(uintptr_t)__atomic_fetch_add(&heap_next, (size + 16) & ~(size_t)15, __ATOMIC_RELAXED);
  onstack_heap_allocated(address, size);
  return address;
}

typedef struct heap_sums {
  int64_t columns[4]; /* alloc_objects, alloc_space, inuse_objects, inuse_space */
} heap_sums;

static heap_sums heap_read(onstack_profile *profile) {
  heap_sums sums = {{0}};
  decoded *out = write_and_decode(profile, NULL);
  for (size_t i = 0; i < out->sample_count; i++)
    for (size_t c = 0; c < 4; c++) sums.columns[c] += out->samples[i].values[c];
  decoded_free(out);
  return sums;
}

/* The ends of all that the sink has had are told by the next round of the drain thread, and of the rest by the stop. */
static heap_sums heap_finish(onstack_session *session, onstack_profile *profile, onstack_stats *stats) {
  *stats = t_finish(session);
  t_check_accounting(stats);
  const heap_sums sums = heap_read(profile);
  onstack_profile_free(profile);
  return sums;
}

Test(heap, each_allocation_is_counted_with_an_interval_of_1) {
  onstack_stats stats;
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = heap_start(profile, 1, 0);
  void *kept = NULL;
  for (size_t i = 1; i <= 1000; i++) {
    void *block = heap_give(i);
    if (i == 700) kept = block;
    if (i != 700 && i != 900) onstack_heap_freed(block);
  }
  onstack_heap_moved(kept, (char *)kept + 1, 50);
  const heap_sums sums = heap_finish(session, profile, &stats);
  cr_assert_eq(sums.columns[0], 1001);
  cr_assert_eq(sums.columns[1], 500500 + 50);
  cr_assert_eq(sums.columns[2], 2);
  cr_assert_eq(sums.columns[3], 950);
  cr_assert_eq(stats.ticks, 1001);
  cr_assert_eq(stats.heap_untracked, 0);
  cr_assert_str_eq(stats.clock, "heap");
}

/* Of the moment at which it is written: what is in use is so then. */
Test(heap, a_profile_is_of_a_moment) {
  struct timespec now;
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = heap_start(profile, 1, 0);
  heap_give(64);
  t_sleep(0.02);
  clock_gettime(CLOCK_REALTIME, &now);
  t_finish(session);
  decoded *out = write_and_decode(profile, NULL);
  cr_assert_eq(out->duration_ns, 0);
  cr_assert_geq(out->time_ns, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - 10000000, "the realtime clock may be set");
  decoded_free(out);
  onstack_profile_free(profile);
}

__attribute__((noipa)) static void *heap_leaking(size_t size) {
  void *block = heap_give(size);
  __asm__ volatile("");
  return block;
}

Test(heap, stacks_lead_from_the_allocation_to_the_root) {
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = heap_start(profile, 1, 0);
  heap_leaking(4096);
  const onstack_stats stats = t_finish(session);
  cr_assert_eq(stats.truncated, 0);
  char *text = folded_text(profile, NULL);
  cr_assert(strstr(text, "_start;__libc_start_main;"), "%s", text);
  /* Calls at the end of a function may have become jumps, or not. */
  cr_assert(strstr(text, ";heap_leaking 4096\n") || strstr(text, ";heap_leaking;heap_give 4096\n") ||
                strstr(text, ";heap_leaking;heap_give;onstack_heap_allocated 4096\n"),
            "%s", text);
  free(text);
  onstack_profile_free(profile);
}

/* Each way of sizes: totals within five standard deviations. Of n bytes in blocks of s the number of samples has a mean of
   about n/r; each stands for s/p, so the deviation of the sum is (s/p) sqrt(blocks p (1-p)). */
Test(heap, totals_are_right_within_what_chance_allows) {
  static const size_t sizes[] = {16, 300, 5000, 100000};
  for (size_t i = 0; i < 4; i++) {
    onstack_stats stats;
    const size_t size = sizes[i], blocks = 40000000 / size;
    onstack_profile *profile = profile_of(NULL);
    onstack_session *session = heap_start(profile, 8192, 0);
    for (size_t b = 0; b < blocks; b++) {
      void *block = heap_give(size);
      if (b % 2 == 0) onstack_heap_freed(block);
    }
    const heap_sums sums = heap_finish(session, profile, &stats);
    const double p = 1 - exp(-(double)size / 8192), total = (double)(size * blocks);
    const double deviation = (double)size / p * sqrt((double)blocks * p * (1 - p)) + 1000;
    cr_expect_lt(fabs((double)sums.columns[1] - total), 5 * deviation, "%zu: %.0f of %.0f", size, (double)sums.columns[1],
                 total);
    cr_expect_lt(fabs((double)sums.columns[3] - total / 2), 5 * deviation, "%zu in use", size);
    cr_expect_lt(fabs((double)sums.columns[0] * (double)size - total), 5 * deviation + total / 100, "%zu objects", size);
    cr_assert_eq(stats.dropped_ring_full, 0);
  }
}

/* Small intervals too, where a byte more or less between two samples is much. */
Test(heap, a_block_is_due_as_often_as_its_weight_says) {
  static const size_t sizes[] = {1, 16, 100};
  const int calls = 300000;
  for (size_t i = 0; i < 3; i++) {
    const double p = 1 - exp(-(double)sizes[i] / 16);
    onstack_profile *profile = profile_of(NULL);
    onstack_session *session = heap_start(profile, 16, 0);
    for (int call = 0; call < calls; call++) heap_give(sizes[i]);
    const onstack_stats stats = t_finish(session);
    /* 1 / p for each, also for those that find no room */
    const double due = (double)stats.ticks * p;
    cr_expect_lt(fabs(due - p * calls), 5 * sqrt(calls * p * (1 - p)) + 100, "%zu: %.0f of %.0f", sizes[i], due, p * calls);
    onstack_profile_free(profile);
  }
}

Test(heap, what_finds_no_place_is_counted_and_never_in_use) {
  onstack_stats stats;
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = heap_start(profile, 1, 32);
  for (int i = 0; i < 500; i++) heap_give(10);
  const heap_sums sums = heap_finish(session, profile, &stats);
  cr_assert_eq(sums.columns[0], 500);
  cr_assert_gt(stats.heap_untracked, 0);
  cr_assert_eq((uint64_t)sums.columns[2] + stats.heap_untracked, 500);
}

/* At any even distance; as many as were asked for have their places. */
Test(heap, blocks_at_even_distances_do_not_crowd) {
  static const size_t distances[] = {16, 4096, 3 * 4096, 16 * 4096, 1 << 20};
  for (size_t d = 0; d < sizeof(distances) / sizeof(distances[0]); d++) {
    onstack_stats stats;
    onstack_profile *profile = profile_of(NULL);
    onstack_session *session = heap_start(profile, 1, 0);
    for (uintptr_t i = 1; i <= 16384; i++) {
      onstack_heap_allocated((void *)(i * distances[d]), 10);
      if (i % 1000 == 0) t_sleep(0.02); /* the buffer holds some thousand samples */
    }
    const heap_sums sums = heap_finish(session, profile, &stats);
    cr_expect_lt(stats.heap_untracked, 20, "%zu: %lu", distances[d], (unsigned long)stats.heap_untracked);
    cr_expect_eq((uint64_t)sums.columns[0], 16384 - stats.dropped_ring_full);
  }
}

Test(heap, an_address_that_comes_again_ends_what_had_it) {
  onstack_stats stats;
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = heap_start(profile, 1, 0);
  for (int i = 0; i < 10; i++) onstack_heap_allocated((void *)0x5000, 100);
  const heap_sums sums = heap_finish(session, profile, &stats);
  cr_assert_eq(stats.heap_reused, 9);
  cr_assert_eq(sums.columns[0], 10);
  cr_assert_eq(sums.columns[3], 100);
}

static int heap_start_second(void) {
  onstack_options options;
  onstack_session *second;
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = 1;
  const int result = onstack_session_start(&options, &second);
  if (result == 0) t_finish(second);
  return result;
}

Test(heap, one_session_at_a_time_and_none_leaves_a_trace) {
  const t_traces before = t_traces_now();
  const struct onstack_kernel_sigaction action = t_action(SIGPROF);
  for (int round = 0; round < 3; round++) {
    onstack_profile *profile = profile_of(NULL);
    onstack_session *session = heap_start(profile, 1, 0);
    cr_assert_eq(t_action(SIGPROF).handler, action.handler, "no signal is caught");
    cr_assert_eq(heap_start_second(), ONSTACK_E_SESSIONS);
    void *block = heap_give(8);
    onstack_stats stats;
    const heap_sums sums = heap_finish(session, profile, &stats);
    cr_assert_eq(sums.columns[3], 8);
    onstack_heap_freed(block);
    heap_give(8);
  }
  const t_traces after = t_traces_now();
  t_same_traces(&before, &after, "heap sessions");
}

Test(heap, a_second_one_is_refused_and_leaves_the_first_its_blocks) {
  onstack_stats stats;
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = heap_start(profile, 1, 0);
  void *block = heap_give(8), *kept = heap_give(24);
  cr_assert_eq(heap_start_second(), ONSTACK_E_SESSIONS);
  onstack_heap_freed(block);
  cr_assert_eq(t_stats(session).heap_in_use, 24);
  const onstack_stats running = t_stats(session);
  cr_assert(running.period == 1 && running.period_unit == ONSTACK_UNIT_BYTES, "an interval of bytes is no time");
  const heap_sums sums = heap_finish(session, profile, &stats);
  cr_assert_eq(sums.columns[1], 32);
  cr_assert_eq(sums.columns[3], 24, "%ld bytes in use", (long)sums.columns[3]);
  onstack_heap_freed(kept);
}

static int heap_during_stop; /* what a start answered meanwhile */
static void *heap_start_meanwhile(void *data) {
  (void)data;
  heap_during_stop = heap_start_second();
  return NULL;
}

/* Called by the stop: the session samples no more, and its blocks are still told of. */
static int heap_slow_sink(void *data, const onstack_sample *sample) {
  pthread_t thread;
  if (heap_during_stop > 0) {
    heap_during_stop = 0;
    pthread_create(&thread, NULL, heap_start_meanwhile, NULL);
    pthread_join(thread, NULL);
  }
  return onstack_profile_sink(data, sample);
}

Test(heap, another_one_begins_once_a_stop_has_returned) {
  onstack_options options;
  onstack_profile *profile = profile_of(NULL);
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = 1;
  options.threads = ONSTACK_OFF;
  options.sink = heap_slow_sink;
  options.sink_data = profile;
  heap_during_stop = 1;
  onstack_session *session = t_start(&options);
  heap_give(40);
  onstack_stats stats;
  const heap_sums sums = heap_finish(session, profile, &stats);
  cr_assert_eq(heap_during_stop, ONSTACK_E_SESSIONS, "%d", heap_during_stop);
  cr_assert_eq(sums.columns[3], 40);
  cr_assert_eq(heap_start_second(), 0);
}

/* A handler that allocates on an alternate stack which holds it, and no walk. What lies below the stack stays as it is. */
#define HEAP_PAINT 0xa5
#define HEAP_REGION ((size_t)64 << 10)
static uintptr_t heap_handler_at; /* its frame, below the kernel's */
static void heap_handler(int signal) {
  (void)signal;
  heap_handler_at = (uintptr_t)__builtin_frame_address(0);
  heap_give(100);
}

Test(heap, a_small_signal_stack_costs_the_sample_and_nothing_else) {
  uint8_t *region = mmap(NULL, HEAP_REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action = {.sa_handler = heap_handler, .sa_flags = SA_ONSTACK};
  onstack_profile *profile = profile_of(NULL);
  onstack_stats stats;
  onstack_session *session = heap_start(profile, 1, 0);
  cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
  size_t bytes = HEAP_REGION / 2;
  for (int i = 0; i < 2; i++) {
    const stack_t alternate = {.ss_sp = region + HEAP_REGION - bytes, .ss_size = bytes};
    memset(region, HEAP_PAINT, HEAP_REGION);
    cr_assert_eq(sigaltstack(&alternate, NULL), 0);
    raise(SIGUSR1);
    for (size_t b = 0; b < HEAP_REGION - bytes; b++)
      cr_assert_eq(region[b], HEAP_PAINT, "%zu below", HEAP_REGION - bytes - b);
    bytes = t_alternate_bytes((uintptr_t)region + HEAP_REGION - heap_handler_at + 600);
  }
  const heap_sums sums = heap_finish(session, profile, &stats);
  cr_assert_eq(sums.columns[1], 100);
  cr_assert_eq(stats.ticks, 2);
  cr_assert_eq(stats.dropped_no_stack, 1);
}

Test(heap, options_of_the_heap_are_refused_elsewhere) {
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.heap_interval = 4096;
  cr_assert_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
  options.clock = ONSTACK_CLOCK_HEAP;
  options.frequency = 99;
  cr_assert_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
  options.frequency = 0;
  options.heap_objects = (1u << 20) + 1;
  cr_assert_eq(onstack_session_start(&options, &session), ONSTACK_E_OPTIONS);
}

Test(heap, a_child_of_fork_has_none_and_may_start_one) {
  onstack_stats stats;
  onstack_profile *profile = profile_of(NULL);
  onstack_session *session = heap_start(profile, 1, 0);
  void *block = heap_give(64);
  const pid_t child = fork();
  if (child == 0) {
    onstack_profile *own;
    onstack_session *again;
    onstack_options options;
    onstack_heap_freed(block);
    heap_give(64);
    onstack_options_init(&options, sizeof(options));
    options.clock = ONSTACK_CLOCK_HEAP;
    options.heap_interval = 1;
    options.sink = onstack_profile_sink;
    if (onstack_profile_new(NULL, &own) != 0) _exit(1);
    options.sink_data = own;
    if (onstack_session_start(&options, &again) != 0) _exit(2);
    heap_give(32);
    if (onstack_session_stop(again) != 0) _exit(3);
    uint64_t value;
    onstack_profile_totals(own, ONSTACK_KIND_ALLOCATION, NULL, NULL, &value);
    _exit(value == 32 ? 0 : 4);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert_eq(status, 0);
  const heap_sums sums = heap_finish(session, profile, &stats);
  cr_assert_eq(sums.columns[0], 1);
  cr_assert_eq(sums.columns[3], 64, "the child's free is the child's");
}

#define HEAP_THREADS 8
#define HEAP_ROUNDS 20000

/* Blocks go to another thread to be freed, as in real programs. */
static void *volatile heap_mailbox[64];
static void *heap_worker(void *unused) {
  unsigned seed = (unsigned)(uintptr_t)&unused;
  for (int i = 0; i < HEAP_ROUNDS; i++) {
    void *block = heap_give(1 + (size_t)rand_r(&seed) % 2000);
    block = __atomic_exchange_n(&heap_mailbox[rand_r(&seed) % 64], block, __ATOMIC_ACQ_REL);
    if (block) onstack_heap_freed(block);
  }
  return NULL;
}

Test(heap, many_threads_and_other_sessions_beside) {
  onstack_stats stats;
  pthread_t threads[HEAP_THREADS];
  onstack_profile *profile = profile_of(NULL);
  onstack_options cpu = t_options(500, NULL, NULL);
  onstack_session *beside = t_start(&cpu);
  onstack_session *session = heap_start(profile, 4096, 0);
  for (int i = 0; i < HEAP_THREADS; i++) pthread_create(&threads[i], NULL, heap_worker, NULL);
  for (int i = 0; i < HEAP_THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 64; i++) onstack_heap_freed(heap_mailbox[i]);
  const heap_sums sums = heap_finish(session, profile, &stats);
  t_finish(beside);
  cr_assert_eq(sums.columns[2], 0, "all was freed: %ld", (long)sums.columns[2]);
  cr_assert_eq(sums.columns[3], 0);
  cr_assert_gt(sums.columns[1], 0);
  cr_assert_eq(stats.heap_untracked, 0);
  cr_assert_eq(stats.heap_reused, 0);
}

/* Starts and stops while others allocate: nothing is told after a stop, and the accounting closes in each. */
static volatile bool heap_busy;
static void *heap_storm(void *unused) {
  (void)unused;
  while (heap_busy) onstack_heap_freed(heap_give(64));
  return NULL;
}

Test(heap, starts_and_stops_while_others_allocate) {
  pthread_t threads[4];
  onstack_stats stats;
  heap_busy = true;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, heap_storm, NULL);
  for (int round = 0; round < 100; round++) {
    onstack_profile *profile = profile_of(NULL);
    onstack_session *session = heap_start(profile, 16, 0);
    t_sleep(0.001);
    heap_finish(session, profile, &stats);
  }
  heap_busy = false;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

Test(heap, distances_are_exponential) {
  uint64_t random = onstack_draw_mix(7);
  double sum = 0, squares = 0;
  for (int i = 0; i < 200000; i++) {
    const double distance = (double)onstack_draw_distance(&random, 10000);
    sum += distance;
    squares += distance * distance;
  }
  const double mean = sum / 200000;
  cr_assert(fabs(mean - 10000) < 120, "%f", mean);
  cr_assert(fabs(sqrt(squares / 200000 - mean * mean) - 10000) < 250);
}

typedef struct account {
  uint64_t whole, sum, code, unexplained;
  uint32_t lines;
} account;

static int read_account(void *data, const void *bytes, size_t length) {
  account *read = data;
  char line[256], part[128];
  unsigned long long number;
  cr_assert(length < sizeof(line));
  memcpy(line, bytes, length);
  line[length] = 0;
  cr_assert(sscanf(line, "onstack.memory bytes=%llu of=%127[^\n]\n", &number, part) == 2, "%s", line);
  if (read->lines++ == 0) {
    cr_assert(strcmp(part, "resident") == 0, "%s", line);
    read->whole = number;
    return 0;
  }
  read->sum += number;
  if (strcmp(part, "code") == 0) read->code = number;
  if (strcmp(part, "unexplained") == 0) read->unexplained = number;
  return 0;
}

static int refuse_bytes(void *data, const void *bytes, size_t length) {
  (void)bytes, (void)length;
  ++*(int *)data;
  return 1;
}

Test(heap, the_parts_of_the_memory_add_up_to_the_resident_size) {
  account read = {0};
  int calls = 0;
  cr_assert_eq(onstack_session_memory_text(NULL, NULL, read_account, &read), 0);
  cr_assert(read.whole > 0 && read.sum == read.whole, "%llu of %llu", (unsigned long long)read.sum,
            (unsigned long long)read.whole);
  cr_assert(read.code > 0 && read.unexplained * 4 < read.whole, "%llu of %llu", (unsigned long long)read.unexplained,
            (unsigned long long)read.whole);
  cr_assert_eq(onstack_session_memory_text(NULL, NULL, refuse_bytes, &calls), ONSTACK_E_OUTPUT);
  cr_assert_eq(calls, 1, "nothing after a refusal");
  cr_assert_eq(onstack_session_memory_text(NULL, NULL, NULL, NULL), ONSTACK_E_OPTIONS);
  onstack_runtime_memory runtime = {.size = 3};
  cr_assert_eq(onstack_session_memory_text(NULL, &runtime, read_account, &read), ONSTACK_E_OPTIONS);
  /* What a runtime says of itself is believed as far as there is memory for it. */
  runtime = (onstack_runtime_memory){.size = sizeof(runtime), .name = "R", .in_use = UINT64_MAX, .stacks = 1};
  read = (account){0};
  cr_assert_eq(onstack_session_memory_text(NULL, &runtime, read_account, &read), 0);
  cr_assert(read.sum == read.whole && read.unexplained == 0);
}

/* Stands for a jemalloc that is linked in with a name of its own. */
static size_t heap_linked_in;
int je_mallctl(const char *name, void *old, size_t *length, void *value, size_t value_length);
int je_mallctl(const char *name, void *old, size_t *length, void *value, size_t value_length) {
  (void)value, (void)value_length;
  if (strncmp(name, "stats.", 6) != 0 || *length != sizeof(heap_linked_in)) return ENOENT;
  memcpy(old, &heap_linked_in, sizeof(heap_linked_in));
  return 0;
}

Test(heap, the_memory_of_an_allocator_that_is_linked_in_is_explained) {
  const size_t bytes = (size_t)64 << 20;
  account silent = {0}, asked = {0};
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(memory, MAP_FAILED);
  memset(memory, 1, bytes);
  cr_assert_eq(onstack_session_memory_text(NULL, NULL, read_account, &silent), 0);
  /* What malloc has and never touched is taken from it. */
  cr_assert_gt(silent.unexplained, bytes / 2);
  heap_linked_in = bytes;
  cr_assert_eq(onstack_session_memory_text(NULL, NULL, read_account, &asked), 0);
  cr_assert(asked.sum == asked.whole && asked.unexplained + bytes / 2 < silent.unexplained, "%llu, before %llu",
            (unsigned long long)asked.unexplained, (unsigned long long)silent.unexplained);
  munmap(memory, bytes);
}
