/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For TSan, which does not run Criterion: everything that several ordinary threads may do with sessions and profiles at
 * once. Four threads start, look, poll, label and stop, by CPU time and by real time; their sinks share a profile that a fifth
 * takes and writes. Another asks for dumps. Another has heap sessions, while all of them and two more tell of blocks, which
 * others free.
 * Usage: races [seconds, default 10]. Exit status 66 where TSan found a race, 1 where a call failed.
 */
#include "onstack/heap.h"
#include "onstack/labels.h"
#include "onstack/onstack.h"
#include "onstack/profile.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RACES_THREADS 4

static onstack_profile *shared;
static int over, failed, sessions, writes; /* by atomics */
static uint64_t recorded, taken;

static double now(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void expect(int result, const char *what) {
  if (result >= 0 || result == -EAGAIN) return;
  fprintf(stderr, "races: %s: %s\n", what, onstack_strerror(result));
  __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
}

static int visit(void *data, const onstack_module_stats *module) {
  *(uint64_t *)data += module->lost;
  return 0;
}

static void run_session(unsigned *seed) {
  onstack_options options;
  onstack_session *session;
  onstack_stats stats = {.size = sizeof(stats)};
  uint64_t lost = 0;
  onstack_options_init(&options, sizeof(options));
  options.clock = rand_r(seed) % 3 ? ONSTACK_CLOCK_CPU : ONSTACK_CLOCK_WALL;
  options.frequency = options.clock == ONSTACK_CLOCK_CPU ? 1000 : 200;
  options.threads = rand_r(seed) % 2 ? ONSTACK_ON : ONSTACK_OFF;
  options.label_bytes = 64;
  options.sink = onstack_profile_sink;
  options.sink_data = shared;
  int result = onstack_session_start(&options, &session);
  expect(result, "start");
  if (result != 0) return;
  for (double end = now(CLOCK_THREAD_CPUTIME_ID) + 0.05; now(CLOCK_THREAD_CPUTIME_ID) < end;) {
    expect(onstack_thread_label_set("round", rand_r(seed) % 2 ? "odd" : NULL), "label");
    expect(onstack_session_poll(session, 0), "poll");
    expect(onstack_session_stats(session, &stats), "stats");
    expect(onstack_session_modules(session, visit, &lost), "modules");
  }
  expect(onstack_session_stop(session), "stop");
  expect(onstack_session_stats(session, &stats), "stats");
  __atomic_fetch_add(&recorded, stats.recorded, __ATOMIC_RELAXED);
  expect(onstack_session_free(session), "free");
  __atomic_fetch_add(&sessions, 1, __ATOMIC_RELAXED);
}

static void *run_sessions(void *number) {
  unsigned seed = (unsigned)(uintptr_t)number;
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) run_session(&seed);
  onstack_thread_labels_clear();
  return NULL;
}

static int count(void *data, const void *bytes, size_t length) {
  (void)bytes;
  *(size_t *)data += length;
  return 0;
}

static void *run_dumps(void *nothing) {
  size_t bytes = 0;
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) expect(onstack_dump(NULL, count, &bytes), "dump");
  return nothing;
}

/* ---- blocks ---- */

#define RACES_BOXES 32

static void *boxes[RACES_BOXES];

/* Stands for an allocator: an address is given out again when its block has ended. */
static void allocate_and_free(unsigned *seed) {
  static uintptr_t next = 1 << 20;
  void **box = &boxes[rand_r(seed) % RACES_BOXES];
  void *block = __atomic_exchange_n(box, NULL, __ATOMIC_ACQ_REL);
  if (block)
    onstack_heap_freed(block);
  else
    block = (void *)__atomic_fetch_add(&next, 64, __ATOMIC_RELAXED);
  onstack_heap_allocated(block, 1 + (size_t)rand_r(seed) % 500);
  void *other = __atomic_exchange_n(box, block, __ATOMIC_ACQ_REL);
  if (other) onstack_heap_freed(other);
}

static void *run_blocks(void *number) {
  unsigned seed = 100 + (unsigned)(uintptr_t)number;
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) allocate_and_free(&seed);
  return NULL;
}

static uint64_t allocations;

static void *run_heap(void *number) {
  unsigned seed = 200 + (unsigned)(uintptr_t)number;
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
    onstack_options options;
    onstack_session *session;
    onstack_stats stats = {.size = sizeof(stats)};
    onstack_options_init(&options, sizeof(options));
    options.clock = ONSTACK_CLOCK_HEAP;
    options.heap_interval = rand_r(&seed) % 2 ? 1 : 5000;
    options.heap_objects = rand_r(&seed) % 2 ? 64 : 100000;
    options.sink = onstack_profile_sink;
    options.sink_data = shared;
    const int result = onstack_session_start(&options, &session);
    expect(result, "heap: start");
    if (result != 0) continue;
    for (int i = 0; i < 300; i++) allocate_and_free(&seed);
    expect(onstack_session_stats(session, &stats), "heap: stats");
    expect(onstack_session_stop(session), "heap: stop");
    expect(onstack_session_stats(session, &stats), "heap: stats");
    allocations += stats.ticks;
    expect(onstack_session_free(session), "heap: free");
  }
  return NULL;
}

static void take_and_write(void) {
  onstack_profile *mine;
  uint64_t ticks = 0, waits = 0;
  size_t bytes = 0;
  expect(onstack_profile_take(shared, &mine), "take");
  if (!mine) return;
  onstack_profile_totals(mine, ONSTACK_KIND_CPU, NULL, &ticks, NULL);
  onstack_profile_totals(mine, ONSTACK_KIND_WALL, NULL, &waits, NULL);
  taken += ticks + waits;
  expect(onstack_profile_write_pprof(mine, NULL, count, &bytes), "pprof");
  const onstack_write_options folded = {.size = sizeof(folded), .kind = ONSTACK_KIND_CPU};
  expect(onstack_profile_write_folded(shared, &folded, count, &bytes), "folded");
  onstack_profile_free(mine);
  writes++;
}

int main(int argc, char **argv) {
  pthread_t threads[RACES_THREADS], heap, dumps, blocks[2];
  double end = now(CLOCK_MONOTONIC) + (argc > 1 ? atof(argv[1]) : 10);
  expect(onstack_profile_new(NULL, &shared), "profile");
  for (uintptr_t i = 0; i < RACES_THREADS; i++) pthread_create(&threads[i], NULL, run_sessions, (void *)(i + 1));
  pthread_create(&heap, NULL, run_heap, NULL);
  pthread_create(&dumps, NULL, run_dumps, NULL);
  for (uintptr_t i = 0; i < 2; i++) pthread_create(&blocks[i], NULL, run_blocks, (void *)i);
  while (now(CLOCK_MONOTONIC) < end) take_and_write();
  __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < RACES_THREADS; i++) pthread_join(threads[i], NULL);
  pthread_join(heap, NULL);
  pthread_join(dumps, NULL);
  for (int i = 0; i < 2; i++) pthread_join(blocks[i], NULL);
  take_and_write();
  onstack_profile_free(shared);
  if (taken != recorded || recorded == 0 || allocations == 0) failed = 1;
  printf("races: %s: %d sessions, %d profiles written, %lu of %lu ticks taken, %lu allocations\n", failed ? "FAILED" : "ok",
         sessions, writes, (unsigned long)taken, (unsigned long)recorded, (unsigned long)allocations);
  return failed;
}
