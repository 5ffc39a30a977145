/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How much of the program's CPU time the profile accounts for, with threads that are there all the time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "burn.h"

static atomic_int finished;
static pthread_barrier_t gate; /* passed by all threads and main: ready, go, done, leave */

typedef struct burner {
  pthread_t thread;
  uint64_t cpu_ns;
} burner;

static int is_finished(void *data) {
  (void)data;
  return atomic_load_explicit(&finished, memory_order_relaxed);
}

static void *burn(void *data) {
  burner *self = data;
  pthread_barrier_wait(&gate);
  pthread_barrier_wait(&gate);
  uint64_t begin = bench_thread_cpu_ns();
  burn_until(10, is_finished, NULL);
  self->cpu_ns = bench_thread_cpu_ns() - begin;
  pthread_barrier_wait(&gate);
  pthread_barrier_wait(&gate);
  return NULL;
}

int bench_case_weights(const bench_options *options) {
  bench_counts counts = {0};
  bench_needs needs = {0};
  burner *burners = calloc(options->threads, sizeof *burners);
  if (!burners || pthread_barrier_init(&gate, NULL, options->threads + 1)) bench_fail("no memory for the threads");
  for (uint32_t i = 0; i < options->threads; i++)
    if (pthread_create(&burners[i].thread, NULL, burn, &burners[i])) bench_fail("thread %u cannot be created", i);

  pthread_barrier_wait(&gate);
  bench_start(options, &needs);
  pthread_barrier_wait(&gate);
  bench_sleep_ns((uint64_t)(options->seconds * 1e9));
  atomic_store(&finished, 1);
  pthread_barrier_wait(&gate); /* the threads are still alive when the session ends */
  bench_stop(&counts);
  pthread_barrier_wait(&gate);

  uint64_t cpu_ns = 0;
  for (uint32_t i = 0; i < options->threads; i++) {
    pthread_join(burners[i].thread, NULL);
    cpu_ns += burners[i].cpu_ns;
  }
  bench_emit("weight", "x CPU time", (double)counts.time_ns / (double)cpu_ns);
  bench_emit("samples", "1/CPU s", (double)counts.samples * 1e9 / (double)cpu_ns);
  free(burners);
  return 0;
}
