/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that end soon, beside several sessions: each session for itself has the CPU time that they used. A thread that
 * lives for a millisecond is no more than one tick of a hundred in a second, so what counts is the sum.
 */
#include "support.h"

#include <sched.h>
#include <signal.h>
#include <sys/time.h>

TestSuite(short_lives, .init = t_setup);

typedef struct life {
  pthread_t thread;
  double seconds, burned;
} life;

static void *live(void *data) {
  life *one = data;
  t_burn(one->seconds);
  one->burned = t_thread_cpu();
  return NULL;
}

/* CPU seconds of threads that live for `seconds` each, `at_once` of them together, until they have used `total`. */
static double live_and_end(double seconds, int at_once, double total) {
  double burned = 0;
  while (burned < total) {
    life lives[4];
    for (int i = 0; i < at_once; i++) {
      lives[i] = (life){.seconds = seconds};
      pthread_create(&lives[i].thread, NULL, live, &lives[i]);
    }
    for (int i = 0; i < at_once; i++) {
      pthread_join(lives[i].thread, NULL);
      burned += lives[i].burned;
    }
  }
  return burned;
}

static void beside(int sessions, double seconds, int at_once, double loose) {
  t_collector *collectors[ONSTACK_MAX_SESSIONS];
  onstack_session *running[ONSTACK_MAX_SESSIONS];
  const int32_t self = onstack_sys_gettid();
  for (int i = 0; i < sessions; i++) {
    collectors[i] = t_collector_new();
    onstack_options options = t_options(100, t_collect, collectors[i]);
    running[i] = t_start(&options);
  }
  const double burned = live_and_end(seconds, at_once, 2.0);
  for (int i = 0; i < sessions; i++) t_finish(running[i]);
  for (int i = 0; i < sessions; i++)
    t_near(t_seconds_of(collectors[i], 0) - t_seconds_of(collectors[i], self), burned, loose, "one of the sessions");
}

Test(short_lives, of_1_ms_alone) { beside(1, 0.001, 1, 0.05); }
Test(short_lives, of_1_ms_beside_another) { beside(2, 0.001, 1, 0.05); }
Test(short_lives, of_1_ms_among_eight) { beside(8, 0.001, 1, 0.05); }
Test(short_lives, of_1_ms_four_at_once_alone) { beside(1, 0.001, 4, 0.05); }
Test(short_lives, of_1_ms_four_at_once_among_eight) { beside(8, 0.001, 4, 0.05); }
Test(short_lives, of_20_ms_beside_another) { beside(2, 0.02, 1, 0.05); }
Test(short_lives, of_20_ms_among_eight) { beside(8, 0.02, 1, 0.05); }
Test(short_lives, of_20_ms_two_at_once_among_eight) { beside(8, 0.02, 2, 0.05); }
Test(short_lives, of_20_ms_four_at_once_beside_another) { beside(2, 0.02, 4, 0.05); }
Test(short_lives, of_100_ms_among_eight) { beside(8, 0.1, 1, 0.05); }

/* Burns until it is told to end, on the processor that takes the process's ticks, or on another one. */
typedef struct lasting {
  pthread_t thread;
  int32_t tid;
  uint32_t quit;
} lasting;

static void *last(void *data) {
  lasting *self = data;
  __atomic_store_n(&self->tid, onstack_sys_gettid(), __ATOMIC_RELEASE);
  while (!__atomic_load_n(&self->quit, __ATOMIC_ACQUIRE)) t_burn(0.01);
  return NULL;
}

static void last_begin(lasting *self) {
  self->quit = 0;
  self->tid = 0;
  pthread_create(&self->thread, NULL, last, self);
  while (__atomic_load_n(&self->tid, __ATOMIC_ACQUIRE) == 0) t_sleep(0.001);
}

static void last_end(lasting *self) {
  __atomic_store_n(&self->quit, 1u, __ATOMIC_RELEASE);
  pthread_join(self->thread, NULL);
}

/* The one that lasts has a timer from the start on: what else ticks is said of the others. */
static void beside_lasting(uint32_t frequency, double seconds, int at_once) {
  lasting other;
  last_begin(&other);
  t_collector *collector = t_collector_new();
  const int32_t self = onstack_sys_gettid();
  onstack_options options = t_options(frequency, t_collect, collector);
  onstack_session *session = t_start(&options);
  const double burned = live_and_end(seconds, at_once, 2.0);
  t_finish(session);
  last_end(&other);
  t_near(t_seconds_of(collector, 0) - t_seconds_of(collector, self) - t_seconds_of(collector, other.tid), burned, 0.05,
         "threads that end, beside one that lasts");
}

Test(short_lives, of_1_ms_beside_one_that_lasts) { beside_lasting(100, 0.001, 1); }
Test(short_lives, of_5_ms_beside_one_that_lasts) { beside_lasting(100, 0.005, 1); }
Test(short_lives, of_20_ms_beside_one_that_lasts) { beside_lasting(100, 0.02, 1); }
Test(short_lives, of_3_ms_two_at_once_beside_one_that_lasts) { beside_lasting(100, 0.003, 2); }
Test(short_lives, of_3_ms_beside_one_that_lasts_at_500_hz) { beside_lasting(500, 0.003, 1); }

static uint32_t host_ticks;

static void host_counts(int signal) {
  (void)signal;
  __atomic_add_fetch(&host_ticks, 1u, __ATOMIC_RELAXED);
}

/*
 * A tick that was sent to a thread is taken before the host's handler comes back: the host sends itself none. On one processor,
 * with others that want it, the thread waits with its tick for some slices.
 */
Test(short_lives, none_of_our_ticks_comes_to_the_host) {
  const unsigned rounds = 10 * t_repeat();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);
  signal(SIGPROF, host_counts);
  lasting others[4];
  for (int i = 0; i < 4; i++) last_begin(&others[i]);
  for (unsigned i = 0; i < rounds; i++) {
    onstack_options options = t_options(100, NULL, NULL);
    onstack_session *session = t_start(&options);
    life one_more = {.seconds = 0.02};
    pthread_create(&one_more.thread, NULL, live, &one_more);
    t_sleep(0.015 + 0.001 * (i % 20));
    t_finish(session);
    pthread_join(one_more.thread, NULL);
  }
  for (int i = 0; i < 4; i++) last_end(&others[i]);
  cr_assert_eq(host_ticks, 0, "the host's handler was called %u times", host_ticks);
}

static void host_tick(int signal) { (void)signal; }

/* A host's own profiler, whose ticks come by the process's clock as well. */
Test(short_lives, of_20_ms_beside_a_profiler_of_the_host) {
  const struct itimerval often = {{0, 10000}, {0, 10000}};
  signal(SIGPROF, host_tick);
  setitimer(ITIMER_PROF, &often, NULL);
  beside(1, 0.02, 1, 0.05);
}
