/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Many threads: busy at once, idle, and coming and going. The accounting closes for the process and for each thread. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

TestSuite(scale, .init = t_setup);

#define THREADS 250 /* tests/bench has the thousand */
#define PERIOD 0.01

typedef struct busy {
  pthread_t thread;
  int32_t tid;
  double armed; /* CPU time between `go` and the end */
  uint64_t weight;
} busy;

static busy threads[THREADS];
static volatile bool over;
static uint32_t gate; /* 1: they may go; a futex, so that all are woken at once and none waits for another */
static uint32_t ready;

static void pass_gate(void) {
  const struct onstack_timespec long_enough = {60, 0};
  while (__atomic_load_n(&gate, __ATOMIC_SEQ_CST) == 0) onstack_sys_futex_wait(&gate, 0, &long_enough);
}

static void open_gate(void) {
  __atomic_store_n(&gate, 1, __ATOMIC_SEQ_CST);
  onstack_sys_call3(SYS_futex, (long)&gate, ONSTACK_FUTEX_WAKE_PRIVATE, INT32_MAX);
}

static void *burns_until_over(void *data) {
  busy *b = data;
  b->tid = onstack_sys_gettid();
  __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
  pass_gate();
  double before = t_thread_cpu();
  do
    for (volatile int i = 0; i < 20000; i++) continue;
  while (!over);
  b->armed = t_thread_cpu() - before;
  return NULL;
}

static void spawn(int count) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  for (int i = 0; i < count; i++)
    cr_assert_eq(pthread_create(&threads[i].thread, &attributes, burns_until_over, &threads[i]), 0, "thread %d", i);
  while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < (uint32_t)count) t_sleep(0.001);
}

static int weigh(void *data, const onstack_sample *sample) {
  (void)data;
  for (int i = 0; i < THREADS; i++) {
    if (threads[i].tid != sample->tid) continue;
    threads[i].weight += sample->weight;
    return 0;
  }
  return 0;
}

/*
 * Each thread alone: within two ticks of its CPU time. All together: within 2 %, and three times what the fractions of a
 * tick at both ends scatter (their variance is a sixth of a tick for each thread). Below, a fifth of a tick more for each:
 * the kernel looks at CPU clocks at its own tick only, and what a thread used since the last one ends with it.
 */
static void accounting_of_each(int count, double seconds) {
  double cpu = 0, weight = 0, worst = 0;
  onstack_options options = t_options(100, weigh, NULL);
  spawn(count);
  onstack_session *session = t_start(&options);
  open_gate();
  t_sleep(seconds);
  over = true;
  for (int i = 0; i < count; i++) pthread_join(threads[i].thread, NULL);
  onstack_stats stats = t_finish(session);
  fprintf(stderr, "scale: %d threads: ticks %lu, recorded %lu, ring full %lu\n", count, stats.ticks, stats.recorded,
          stats.dropped_ring_full);
  cr_assert_eq(stats.dropped_ring_full, 0, "none is lost to a full buffer");
  cr_assert_leq(stats.dropped_stopping, 1, "of this thread, which stops it: the others have ended");
  cr_assert_eq(stats.ticks, stats.recorded + stats.dropped_stopping);
  for (int i = 0; i < count; i++) {
    double off = (double)threads[i].weight * PERIOD - threads[i].armed;
    cpu += threads[i].armed;
    weight += (double)threads[i].weight * PERIOD;
    if (off * off > worst * worst) worst = off;
  }
  fprintf(stderr, "scale: %.3f s of %.3f s: %.4f; the worst thread is off by %.1f ticks\n", weight, cpu, weight / cpu,
          worst / PERIOD);
  cr_assert(worst > -2.0 * PERIOD && worst < 2.0 * PERIOD, "a thread is off by %.1f ticks", worst / PERIOD);
  double slack = cpu * 0.02 + 3 * PERIOD * sqrt(count / 6.0);
  cr_assert(weight > cpu - slack - 0.2 * PERIOD * count && weight < cpu + slack, "%.3f s of %.3f s, allowed are %.3f",
            weight, cpu, slack);
}

Test(scale, the_accounting_of_eight) { accounting_of_each(8, 2.0); }
Test(scale, the_accounting_of_many) { accounting_of_each(THREADS, 4.0); }

/* ---- coming and going ---- */

static void *lives_shortly(void *seconds) {
  t_burn(*(double *)seconds);
  return NULL;
}

static pthread_attr_t *small_stacks(void) {
  static pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  return &attributes;
}

/* Ten thousand in a row, a few at a time: nothing of them is left behind, neither timers nor records. */
Test(scale, ten_thousand_come_and_go) {
  double seconds = 0.0002;
  pthread_t lives[8];
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_traces before = t_traces_now();
  double cpu = t_process_cpu();
  for (int i = 0; i < 10000; i += 8) {
    for (int k = 0; k < 8; k++) cr_assert_eq(pthread_create(&lives[k], small_stacks(), lives_shortly, &seconds), 0);
    for (int k = 0; k < 8; k++) pthread_join(lives[k], NULL);
  }
  cpu = t_process_cpu() - cpu;
  t_sleep(2.2); /* housekeeping reaps once a second */
  t_traces after = t_traces_now();
  cr_assert_leq(after.timers, before.timers + 2, "timers %d -> %d", before.timers, after.timers);
  cr_assert_leq(t_stats(session).threads_armed, 3);
  onstack_stats stats = t_finish(session);
  fprintf(stderr, "scale: 10,000 lives of 0.2 ms: %.3f s of %.3f s\n", (double)stats.ticks * 0.001, cpu);
  t_near((double)stats.ticks * 0.001, cpu, 0.15, "their time is counted"); /* our own thread's is in `cpu`, too */
  cr_assert_eq(stats.threads_unarmed, 0);
}

#define CROWD 10000
static pthread_t crowd[CROWD];

static void *waits(void *unused) {
  pass_gate();
  return unused;
}

/* Ten thousand that sleep: each has its timer, and they cost next to nothing. */
Test(scale, ten_thousand_asleep) {
  int count = 0;
  while (count < CROWD && pthread_create(&crowd[count], small_stacks(), waits, NULL) == 0) count++;
  cr_assert_gt(count, 1000, "only %d threads can be had here", count);
  onstack_session *session = t_start(NULL);
  cr_assert_geq(t_stats(session).threads_armed + t_stats(session).threads_unarmed, (uint64_t)count);
  t_sleep(0.2);
  double cpu = t_process_cpu(), wall = t_now();
  t_sleep(3);
  cpu = (t_process_cpu() - cpu) / (t_now() - wall);
  t_finish(session);
  open_gate();
  for (int i = 0; i < count; i++) pthread_join(crowd[i], NULL);
  fprintf(stderr, "scale: %d threads asleep cost %.2f ms a second\n", count, cpu * 1e3);
  /* 12 ms where nothing else runs, twice that on a busy machine; a look at all of them with each poll would be a second. */
  cr_assert_lt(cpu, 0.1, "%.2f ms a second", cpu * 1e3);
}

/* ---- the limit of timers, which the kernel counts per user ---- */

/* At most a quarter of the limit is ours; the other threads are sampled by the process tick alone. */
Test(scale, beyond_the_quota_the_process_tick_stands_in) {
  struct rlimit limit = {.rlim_cur = 256, .rlim_max = RLIM_INFINITY};
  enum { count = 100, allowed = 64 };
  double cpu = t_process_cpu();
  getrlimit(RLIMIT_SIGPENDING, &limit);
  limit.rlim_cur = 256;
  if (t_signals_held() > 100) cr_skip("other programs of this user hold too many timers for this test");
  cr_assert_eq(setrlimit(RLIMIT_SIGPENDING, &limit), 0);
  spawn(count);
  onstack_options options = t_options(100, weigh, NULL);
  onstack_session *session = t_start(&options);
  cpu = t_process_cpu();
  open_gate();
  t_sleep(3);
  onstack_stats running = t_stats(session);
  over = true;
  for (int i = 0; i < count; i++) pthread_join(threads[i].thread, NULL);
  cpu = t_process_cpu() - cpu;
  onstack_stats stats = t_finish(session);
  fprintf(stderr, "scale: %lu of %d threads have timers: %.3f s of %.3f s\n", running.threads_armed, count,
          (double)stats.recorded * PERIOD, cpu);
  cr_assert_leq(running.threads_armed, allowed);
  cr_assert_geq(running.threads_armed, allowed / 2);
  cr_assert_geq(stats.threads_unarmed, count - allowed);
  t_near((double)stats.recorded * PERIOD, cpu, 0.15, "with and without a timer");
  double without = 0;
  for (int i = allowed; i < count; i++) without += (double)threads[i].weight * PERIOD;
  double cpu_without = 0;
  for (int i = allowed; i < count; i++) cpu_without += threads[i].armed;
  cr_assert_gt(without, cpu_without / 3, "those without: %.3f s of %.3f s", without, cpu_without);
}
