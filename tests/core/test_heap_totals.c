/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The judge of heap profiles: totals by function against exact books, over a hundred sessions, one to 64 threads, small and
 * large blocks, by libonstack-heap.a's malloc and its kin.
 *
 * Each of n blocks of s bytes is sampled by itself with the chance p = 1 - exp(-s / interval), so how many are is binomial. A
 * run is inside if its number lies within the central 95 %; of a hundred runs so many may lie outside as chance allows but once
 * in a million. Blocks in use and blocks that were freed are judged apart, as they are independent. All bars together give a
 * false alarm in less than one of 10,000 runs of this test.
 */
#include "support.h"
#include "test_profile_support.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

TestSuite(heap_totals, .init = t_setup);

#define APART __attribute__((noipa, optimize("no-optimize-sibling-calls"))) /* its frame is there during the call */
#define INTERVAL 8192
#define RUNS 100
#define MOST_THREADS 64
#define OUTSIDE_ONE 18 /* of 100 at 5 %: 5e-7, for each of twelve */
#define OUTSIDE_ALL 97 /* of 1,200 at 5 %: 2e-6 */
#define SIGMAS 5.0     /* of the sum over all runs: 6e-7, for each of twelve */

APART static void *totals_malloc_24(void) { return malloc(24); }
APART static void *totals_calloc_200(void) { return calloc(2, 100); }
APART static void *totals_older(void) { return malloc(8); }
APART static void *totals_realloc_1500(void) { return realloc(totals_older(), 1500); }
APART static void *totals_memalign_9000(void) { return memalign(64, 9000); }
APART static void *totals_malloc_40000(void) { return malloc(40000); }
APART static void *totals_calloc_200000(void) { return calloc(1, 200000); }

typedef struct total {
  const char *function;
  void *(*allocate)(void);
  size_t size;
  int blocks; /* in one run, over all threads; a multiple of 2 x 64 */
  /* over the runs, of what is in use and what was freed */
  int outside[2];
  double sampled[2];
} total;

static total totals[] = {
    {"totals_malloc_24", totals_malloc_24, 24, 65536, {0}, {0}},
    {"totals_calloc_200", totals_calloc_200, 200, 8192, {0}, {0}},
    {"totals_realloc_1500", totals_realloc_1500, 1500, 1280, {0}, {0}},
    {"totals_memalign_9000", totals_memalign_9000, 9000, 384, {0}, {0}},
    {"totals_malloc_40000", totals_malloc_40000, 40000, 256, {0}, {0}},
    {"totals_calloc_200000", totals_calloc_200000, 200000, 128, {0}, {0}},
};
#define TOTALS (sizeof(totals) / sizeof(totals[0]))
#define ALL_BLOCKS (65536 + 8192 + 1280 + 384 + 256 + 128)

/* ---- one run ---- */

static void *blocks[ALL_BLOCKS];
static int thread_count;
static pthread_barrier_t all_have_allocated;

/* Every second block is freed, by another thread than the one that has it. */
static void *run_thread(void *data) {
  const int number = (int)(intptr_t)data, next = (number + 1) % thread_count;
  void **place = blocks;
  for (size_t t = 0; t < TOTALS; place += totals[t++].blocks) {
    const int part = totals[t].blocks / thread_count;
    for (int i = 0; i < part; i++) place[number * part + i] = totals[t].allocate();
  }
  pthread_barrier_wait(&all_have_allocated);
  place = blocks;
  for (size_t t = 0; t < TOTALS; place += totals[t++].blocks) {
    const int part = totals[t].blocks / thread_count;
    for (int i = 1; i < part; i += 2) {
      free(place[next * part + i]);
      place[next * part + i] = NULL;
    }
  }
  return NULL;
}

static void run_threads(int count) {
  pthread_t threads[MOST_THREADS];
  thread_count = count;
  pthread_barrier_init(&all_have_allocated, NULL, (unsigned)count);
  for (int i = 0; i < count; i++) cr_assert_eq(pthread_create(&threads[i], NULL, run_thread, (void *)(intptr_t)i), 0);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all_have_allocated);
}

/* The innermost of the functions above. */
static bool is_of(const decoded *out, const d_sample *sample, const char *function) {
  for (size_t l = 0; l < sample->location_count; l++) {
    const d_location *location = d_find_location(out, sample->locations[l]);
    for (size_t i = 0; i < location->line_count; i++) {
      const char *name = d_text(out, d_find_function(out, location->lines[i].function)->name);
      if (strncmp(name, "totals_", 7) == 0) return strcmp(name, function) == 0;
    }
  }
  return false;
}

static decoded *run_session(int count) {
  onstack_options options;
  onstack_profile *profile = profile_of(NULL);
  cr_assert_eq(onstack_options_init(&options, sizeof(options)), 0);
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = INTERVAL;
  options.buffer_bytes = 16u << 20; /* what found no room would be a loss that is counted, and not judged here */
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  onstack_session *session = t_start(&options);
  run_threads(count);
  const onstack_stats stats = t_finish(session);
  for (size_t i = 0; i < ALL_BLOCKS; i++) free(blocks[i]);
  memset(blocks, 0, sizeof(blocks));
  cr_assert_eq(stats.dropped_ring_full + stats.heap_untracked, 0);
  decoded *out = write_and_decode(profile, NULL);
  onstack_profile_free(profile);
  return out;
}

/* ---- what chance allows ---- */

/* The chance of k successes or fewer. */
static double binomial_up_to(int n, double p, int k) {
  double sum = 0;
  for (int i = 0; i <= k; i++)
    sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) + i * log(p) + (n - i) * log1p(-p));
  return sum;
}

static bool is_inside(int n, double p, int k) {
  if (1 - p < 1e-9) return k == n;
  if (p > 0.5) return is_inside(n, 1 - p, n - k);
  return binomial_up_to(n, p, k) > 0.025 && 1 - binomial_up_to(n, p, k - 1) > 0.025;
}

/* From the profile's sums to how many blocks were sampled. Each stands for 1 / p blocks and s / p bytes, rounded by chance
   to the one or the other side. */
static int sampled_blocks(const total *of, double p, int64_t objects, int64_t bytes) {
  const double each = (double)of->size / p, sampled = round((double)bytes / each), rounding = 1 + 4 * sqrt(sampled);
  cr_assert_lt(fabs((double)bytes - sampled * each), rounding, "%s: %ld bytes are no whole number of samples", of->function,
               (long)bytes);
  cr_assert_lt(fabs((double)objects - sampled / p), rounding, "%s: %ld blocks for %ld bytes", of->function, (long)objects,
               (long)bytes);
  return (int)sampled;
}

static void judge_run(const decoded *out, total *of) {
  const double p = -expm1(-(double)of->size / INTERVAL);
  int64_t sums[4] = {0};
  for (size_t i = 0; i < out->sample_count; i++)
    if (is_of(out, &out->samples[i], of->function))
      for (size_t c = 0; c < 4; c++) sums[c] += (int64_t)out->samples[i].values[c];
  const int half = of->blocks / 2;
  const int sampled[2] = {sampled_blocks(of, p, sums[2], sums[3]),
                          sampled_blocks(of, p, sums[0] - sums[2], sums[1] - sums[3])};
  for (int kind = 0; kind < 2; kind++) {
    of->outside[kind] += !is_inside(half, p, sampled[kind]);
    of->sampled[kind] += sampled[kind];
  }
}

static int judge_all(const total *of) {
  static const char *const kinds[2] = {"in use", "freed"};
  const double p = -expm1(-(double)of->size / INTERVAL), n = RUNS * of->blocks / 2.0;
  const double sigma = sqrt(n * p * (1 - p)) + 1;
  for (int kind = 0; kind < 2; kind++) {
    cr_expect_leq(of->outside[kind], OUTSIDE_ONE, "%s, %s: %d of %d runs outside", of->function, kinds[kind],
                  of->outside[kind], RUNS);
    cr_expect_lt(fabs(of->sampled[kind] - n * p), SIGMAS * sigma, "%s, %s: %.0f samples, not %.0f", of->function,
                 kinds[kind], of->sampled[kind], n * p);
  }
  return of->outside[0] + of->outside[1];
}

Test(heap_totals, by_function_in_95_of_100_runs) {
  int outside = 0;
  t_deadline(300);
  for (int run = 0; run < RUNS; run++) {
    decoded *out = run_session(1 << run % 7);
    for (size_t t = 0; t < TOTALS; t++) judge_run(out, &totals[t]);
    decoded_free(out);
  }
  for (size_t t = 0; t < TOTALS; t++) outside += judge_all(&totals[t]);
  cr_expect_leq(outside, OUTSIDE_ALL, "%d of %zu runs and functions outside", outside, 2 * RUNS * TOTALS);
  cr_log_info("%d of %zu outside", outside, 2 * RUNS * TOTALS);
}
