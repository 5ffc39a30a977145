/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The same with threads that come and go: each lives for some ms of CPU time. */
#include <pthread.h>
#include <stdlib.h>

#include "bench.h"
#include "burn.h"

typedef struct launcher {
  pthread_t thread;
  uint64_t end_ns; /* no new thread after that */
  uint64_t life_ns;
  uint64_t short_cpu_ns; /* of the short thread that was joined last */
  uint64_t cpu_ns;       /* of all its short threads and itself */
} launcher;

static void *live_shortly(void *data) {
  launcher *parent = data;
  burn_cpu_ns(parent->life_ns);
  parent->short_cpu_ns = bench_thread_cpu_ns();
  return NULL;
}

static void *launch(void *data) {
  launcher *self = data;
  uint64_t begin = bench_thread_cpu_ns();
  while (bench_now_ns() < self->end_ns) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, live_shortly, self)) bench_fail("a short thread cannot be created");
    pthread_join(thread, NULL);
    self->cpu_ns += self->short_cpu_ns;
  }
  self->cpu_ns += bench_thread_cpu_ns() - begin;
  return NULL;
}

int bench_case_short_threads(const bench_options *options) {
  bench_counts counts = {0};
  bench_needs needs = {0};
  launcher *launchers = calloc(options->threads, sizeof *launchers);
  if (!launchers) bench_fail("no memory for the threads");

  bench_start(options, &needs);
  uint64_t end_ns = bench_now_ns() + (uint64_t)(options->seconds * 1e9);
  for (uint32_t i = 0; i < options->threads; i++) {
    launchers[i].end_ns = end_ns;
    launchers[i].life_ns = options->life_ms * 1000000ull;
    if (pthread_create(&launchers[i].thread, NULL, launch, &launchers[i])) bench_fail("a launcher cannot be created");
  }
  uint64_t cpu_ns = 0;
  for (uint32_t i = 0; i < options->threads; i++) {
    pthread_join(launchers[i].thread, NULL);
    cpu_ns += launchers[i].cpu_ns;
  }
  bench_stop(&counts);

  bench_emit("weight", "x CPU time", (double)counts.time_ns / (double)cpu_ns);
  bench_emit("samples", "1/CPU s", (double)counts.samples * 1e9 / (double)cpu_ns);
  free(launchers);
  return 0;
}
