/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The clock `wall` over very many threads that wait: what it costs, that it gets rarer rather than dearer, and how it ends. */
#include "sampler/source/look.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static void init(void) {
  t_setup();
  if (!onstack_look_works()) cr_skip("the kernel tells nothing of blocked threads, or an emulator tells of its own");
}

TestSuite(waits_many, .init = init);

static uint32_t gate, waiting;

static void *waits(void *data) {
  const struct onstack_timespec long_enough = {60, 0};
  onstack_add_relaxed(&waiting, 1u);
  while (onstack_observe(&gate) == 0) onstack_sys_futex_wait(&gate, 0, &long_enough);
  return data;
}

static int add(void *data, const onstack_sample *sample) {
  *(uint64_t *)data += sample->value;
  return 0;
}

typedef struct many {
  double cpu, thread_seconds, stop; /* processors used; what the samples say; how long the end took */
  double lived;                     /* between two moments that enclose the session, and two that it encloses */
  onstack_stats stats;
} many;

static pthread_t *begin(uint32_t count) {
  pthread_t *threads = calloc(count, sizeof(*threads));
  pthread_attr_t attributes;
  onstack_store_relaxed(&waiting, 0u);
  onstack_store_relaxed(&gate, 0u);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  for (uint32_t i = 0; i < count; i++)
    if (pthread_create(&threads[i], &attributes, waits, NULL) != 0) cr_skip("no %u threads here", count);
  while (onstack_load_relaxed(&waiting) < count) t_sleep(0.001);
  return threads;
}

static many watch(uint32_t count) {
  many seen = {.cpu = 0};
  uint64_t value = 0;
  pthread_t *threads = begin(count);
  onstack_options options = t_options(20, add, &value);
  options.clock = ONSTACK_CLOCK_WALL;
  onstack_session *session = t_start(&options);
  const double begun = t_now();
  while (t_stats(session).wall_looks < count) t_sleep(0.01); /* the first look at each is the dearest: it walks the stack */
  t_sleep(2);
  const double cpu = t_process_cpu(), from = t_now();
  t_sleep(4);
  seen.cpu = (t_process_cpu() - cpu) / (t_now() - from);
  const double ends = t_now();
  seen.stats = t_finish(session);
  seen.stop = t_now() - ends;
  seen.lived = t_now() - begun;
  seen.thread_seconds = (double)value / 1e9;
  onstack_publish(&gate, 1u);
  onstack_sys_call3(SYS_futex, (long)&gate, ONSTACK_FUTEX_WAKE_PRIVATE, INT32_MAX);
  for (uint32_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  free(threads);
  fprintf(stderr, "waits: %u threads: %.2f %% of a processor, %llu rounds, %.0f of %.0f s, stopped in %.2f s\n", count,
          100 * seen.cpu, (unsigned long long)seen.stats.wall_rounds, seen.thread_seconds, count * seen.lived, seen.stop);
  return seen;
}

#define MANY_ROUNDS 24u /* in six seconds: twenty a second where two per cent of a processor are enough */

/* Other programs make it dearer, never cheaper: one try in three within the bounds shows it. */
Test(waits_many, a_thousand_cost_little, .timeout = 60) {
  many seen = watch(1000);
  for (int again = 0; again < 2 && (seen.cpu > 0.03 || seen.stats.wall_rounds <= MANY_ROUNDS); again++) seen = watch(1000);
  cr_expect_leq(seen.cpu, 0.03, "%.3f of a processor", seen.cpu);
  cr_expect_gt(seen.stats.wall_rounds, MANY_ROUNDS);
  cr_expect_eq(seen.stats.dropped_ring_full, 0u);
  t_near(seen.thread_seconds, 1001 * seen.lived, 0.03 * 1001 * seen.lived, "all of the threads' time");
}

Test(waits_many, ten_thousand_are_looked_at_less_often, .timeout = 120) {
  many seen = watch(10000);
  for (int again = 0; again < 2 && seen.cpu >= 0.10; again++) seen = watch(10000);
  const double told = seen.thread_seconds + (double)(seen.stats.dropped_ring_full + seen.stats.dropped_unwinder) / 20;
  cr_expect_lt(seen.cpu, 0.10, "%.3f of a processor", seen.cpu);
  cr_expect_geq(seen.stats.wall_rounds, 2u);
  cr_expect_lt(seen.stats.wall_looks, 3 * 10000u, "who stands is not walked again");
  cr_expect_lt(seen.stop, 10.0);
  t_near(told, 10001 * seen.lived, 0.05 * 10001 * seen.lived, "what is not told is counted");
}
