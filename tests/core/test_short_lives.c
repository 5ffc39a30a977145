/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that end soon, beside several sessions: each session for itself has the CPU time that they used. A thread that
 * lives for a millisecond is no more than one tick of a hundred in a second, so what counts is the sum.
 */
#include "support.h"

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

static void host_tick(int signal) { (void)signal; }

/* A host's own profiler, whose ticks come by the process's clock as well. */
Test(short_lives, of_20_ms_beside_a_profiler_of_the_host) {
  const struct itimerval often = {{0, 10000}, {0, 10000}};
  signal(SIGPROF, host_tick);
  setitimer(ITIMER_PROF, &often, NULL);
  beside(1, 0.02, 1, 0.05);
}
