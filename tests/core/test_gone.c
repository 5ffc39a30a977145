/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread can end inside of the handler: a seccomp filter kills the thread that makes a forbidden call. Nothing may wait for
   it. */
#include "support.h"

#include "platform/atomics.h"
#include "sampler/threads/task.h"
#include "onstack/heap.h"

#include <stdio.h>
#include <unistd.h>

TestSuite(gone, .init = t_setup);

#define STATUS 7

static int32_t ends_tid;   /* of the thread that ends in its next walk; 0: none does */
static volatile int ended; /* it is about to */

/* The system call stands for a call that is forbidden: this thread does not come back from it. */
static onstack_walk_result walk(void *data, const onstack_registers *registers, void *context, uint64_t *frames,
                                uint32_t capacity) {
  (void)data, (void)context, (void)capacity;
  if (onstack_load_relaxed(&ends_tid) == onstack_sys_gettid()) {
    ended = 1;
    onstack_sys_call1(SYS_exit, 0);
  }
  frames[0] = registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_UNWINDER};
}

static onstack_session *start(t_collector *collector, uint32_t heap_interval) {
  static const onstack_unwinder ending = {.size = sizeof(ending), .name = "ending", .walk = walk};
  onstack_options options = t_options(500, t_collect, collector);
  options.custom_unwinder = &ending;
  if (heap_interval > 0) {
    options.frequency = 0;
    options.clock = ONSTACK_CLOCK_HEAP;
    options.heap_interval = heap_interval;
  }
  return t_start(&options);
}

static void burn_until_ended(void) {
  while (!ended) t_burn(0.01);
}

/* `data`: CPU seconds before the end; a thread that has ticked has a timer of its own. */
static void *burn_and_end(void *data) {
  t_burn(*(const double *)data);
  onstack_store_relaxed(&ends_tid, onstack_sys_gettid());
  burn_until_ended();
  return NULL;
}

static void *allocate_and_end(void *unused) {
  onstack_store_relaxed(&ends_tid, onstack_sys_gettid());
  static const char block[64];
  for (;;) onstack_heap_allocated(block, sizeof(block));
  return unused;
}

/* Waits for the end of a thread that `run` makes end. Returns its id. */
static int32_t see_it_end(void *(*run)(void *), double seconds) {
  pthread_t thread;
  cr_assert_eq(pthread_create(&thread, NULL, run, &seconds), 0);
  pthread_detach(thread);
  while (!ended) t_sleep(0.001);
  const int32_t tid = onstack_load_relaxed(&ends_tid);
  while (!onstack_task_is_gone((uint32_t)tid)) t_sleep(0.001);
  return tid;
}

/* The sample that was begun holds up those behind it until the session stops; then they are delivered. */
static void ends_in_a_tick(double seconds) {
  t_collector *collector = t_collector_new();
  onstack_session *session = start(collector, 0);
  uint64_t after = 0;
  const int32_t tid = see_it_end(burn_and_end, seconds);
  const double at = t_now();
  t_burn(0.2);
  const onstack_stats stats = t_finish(session);
  for (size_t i = 0; i < collector->count; i++)
    if (collector->samples[i].tid != tid && (double)collector->samples[i].time_ns / 1e9 > at)
      after += collector->samples[i].weight;
  cr_assert_gt(after, 10, "weight of the samples behind it");
  cr_assert_geq(stats.dropped_unwinder, 1, "the one that was begun is counted");
}

Test(gone, in_the_tick_of_a_timer_of_its_own) { ends_in_a_tick(0.2); }

Test(gone, in_the_tick_that_finds_it) { ends_in_a_tick(0); }

Test(gone, in_an_allocation) {
  t_collector *collector = t_collector_new();
  onstack_session *session = start(collector, 1);
  see_it_end(allocate_and_end, 0);
  t_finish(session);
}

static void *stop_when_the_first_has_ended(void *session) {
  while (!onstack_task_is_gone((uint32_t)getpid())) t_sleep(0.001);
  _exit(onstack_session_stop(session) == 0 ? STATUS : 1);
}

Test(gone, the_first_thread) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    static double seconds = 0.1;
    pthread_t thread;
    t_deadline(20);
    onstack_session *session = start(t_collector_new(), 0);
    pthread_create(&thread, NULL, stop_when_the_first_has_ended, session);
    burn_and_end(&seconds);
  }
  cr_assert_eq(t_wait(child), STATUS);
}
