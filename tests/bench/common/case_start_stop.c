/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How long the calls take that begin and end a session, in a process with some sleeping threads. */
#include <pthread.h>
#include <stdlib.h>

#include "bench.h"

static pthread_barrier_t gate;

static void *sleep_until_the_end(void *data) {
  (void)data;
  pthread_barrier_wait(&gate);
  pthread_barrier_wait(&gate);
  return NULL;
}

static double microseconds_since(uint64_t begin_ns) { return (double)(bench_now_ns() - begin_ns) / 1000; }

int bench_case_start_stop(const bench_options *options) {
  uint32_t sleepers = options->threads - 1, repeats = options->repeats;
  bench_needs needs = {0};
  pthread_t *threads = calloc(options->threads, sizeof *threads);
  double *starts = calloc(repeats, sizeof *starts), *stops = calloc(repeats, sizeof *stops);
  if (!threads || !starts || !stops || pthread_barrier_init(&gate, NULL, sleepers + 1))
    bench_fail("no memory for %u threads and %u repeats", options->threads, repeats);
  for (uint32_t i = 0; i < sleepers; i++)
    if (pthread_create(&threads[i], NULL, sleep_until_the_end, NULL)) bench_fail("thread %u cannot be created", i);
  pthread_barrier_wait(&gate);

  for (uint32_t i = 0; i < repeats; i++) {
    uint64_t begin = bench_now_ns();
    bench_start(options, &needs);
    starts[i] = microseconds_since(begin);
    bench_sleep_ns(2000000);
    begin = bench_now_ns();
    bench_stop(NULL);
    stops[i] = microseconds_since(begin);
    bench_sleep_ns(1000000);
  }
  pthread_barrier_wait(&gate);
  for (uint32_t i = 0; i < sleepers; i++) pthread_join(threads[i], NULL);

  /* The first start pays for what later ones find done: pages, self-tests, lazily made tables. */
  bench_emit("first-start", "us", starts[0]);
  bench_emit("start", "us", bench_median(starts + 1, repeats - 1));
  bench_emit("stop", "us", bench_median(stops + 1, repeats - 1));
  free(threads);
  free(starts);
  free(stops);
  return 0;
}
