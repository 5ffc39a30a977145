/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where a filter or the kernel refuses timers: the next best clock, and where that is refused too, an error. */
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

TestSuite(no_timers, .init = t_setup);

static void refuse(int first, int second, int error) {
  if (t_refuse(first, second, error) != 0) cr_skip("no seccomp filters here");
}

typedef struct worker {
  pthread_t thread;
  double seconds, burned;
  int32_t tid;
} worker;

static void *work(void *data) {
  worker *w = data;
  w->tid = onstack_sys_gettid();
  t_burn(w->seconds);
  w->burned = t_thread_cpu();
  return NULL;
}

static void is_sampled(int error, uint32_t frequency) {
  t_collector *collector = t_collector_new();
  worker workers[4] = {{.seconds = 0.5}, {.seconds = 0.5}, {.seconds = 0.25}, {.seconds = 0.25}};
  refuse(SYS_timer_create, SYS_timer_create, error);
  t_traces before = t_traces_now();
  onstack_options options = t_options(frequency, t_collect, collector);
  onstack_session *session = t_start(&options);
  double main_before = t_thread_cpu();
  for (int i = 0; i < 4; i++) pthread_create(&workers[i].thread, NULL, work, &workers[i]);
  t_burn(0.3);
  double main_burned = t_thread_cpu() - main_before;
  for (int i = 0; i < 4; i++) pthread_join(workers[i].thread, NULL);
  cr_assert_str_eq(t_stats(session).clock, "cpu-ticker");
  t_finish(session);
  for (int i = 0; i < 4; i++) t_near(t_seconds_of(collector, workers[i].tid), workers[i].burned, 0.12, "a new thread");
  t_near(t_seconds_of(collector, onstack_sys_gettid()), main_burned, 0.12, "the one that was there");
  for (size_t i = 0; i < collector->count; i++)
    cr_assert(strncmp(collector->samples[i].name, "onstack-", 8) != 0, "a sample of our own thread");
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "a session without timers");
}
Test(no_timers, a_kernel_without_them) { is_sampled(ENOSYS, 100); }
Test(no_timers, a_filter_that_refuses_them) { is_sampled(EPERM, 100); }
Test(no_timers, at_a_high_rate_by_weight) { is_sampled(EPERM, 5000); }

static void *blocks(void *data) {
  worker *w = data;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  w->tid = onstack_sys_gettid();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  t_burn(0.2);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  t_burn(0.2);
  w->burned = t_thread_cpu();
  return NULL;
}

/* One tick waits, the rest becomes overruns of the next. */
Test(no_timers, a_thread_that_blocks_the_signal_loses_nothing) {
  t_collector *collector = t_collector_new();
  worker w = {0};
  refuse(SYS_timer_create, SYS_timer_create, ENOSYS);
  onstack_options options = t_options(200, t_collect, collector);
  onstack_session *session = t_start(&options);
  pthread_create(&w.thread, NULL, blocks, &w);
  pthread_join(w.thread, NULL);
  t_finish(session);
  t_near(t_seconds_of(collector, w.tid), w.burned, 0.1, "blocked and not");
}

Test(no_timers, the_wall_clock_too) {
  t_collector *collector = t_collector_new();
  refuse(SYS_timer_create, SYS_timer_create, ENOSYS);
  onstack_options options = t_options(100, t_collect, collector);
  options.clock = ONSTACK_CLOCK_WALL_SIGNAL;
  onstack_session *session = t_start(&options);
  cr_assert_str_eq(t_stats(session).clock, "wall-signal-ticker");
  t_sleep(0.5);
  t_finish(session);
  t_near(t_seconds_of(collector, onstack_sys_gettid()), 0.5, 0.15, "asleep");
}

static void is_refused(onstack_switch threads) {
  onstack_session *session = (void *)&session;
  onstack_options options = t_options(100, NULL, NULL);
  options.threads = threads;
  struct onstack_kernel_sigaction action = t_action(SIGPROF);
  t_traces before = t_traces_now();
  static const onstack_clock clocks[] = {ONSTACK_CLOCK_CPU, ONSTACK_CLOCK_WALL, ONSTACK_CLOCK_WALL_SIGNAL};
  for (int i = 0; i < 3; i++) {
    options.clock = clocks[i];
    cr_assert_eq(onstack_session_start(&options, &session), ONSTACK_E_CLOCK);
    cr_assert_null(session);
  }
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "a refused start");
  struct onstack_kernel_sigaction now = t_action(SIGPROF);
  cr_assert(t_same_action(&action, &now));
}

Test(no_timers, without_a_thread_of_ours_it_is_an_error) {
  refuse(SYS_timer_create, SYS_timer_create, EPERM);
  is_refused(ONSTACK_OFF);
}

Test(no_timers, nor_can_signals_be_sent) {
  refuse(SYS_timer_create, SYS_rt_tgsigqueueinfo, EPERM);
  is_refused(ONSTACK_ON);
  cr_assert(strstr(onstack_strerror(ONSTACK_E_CLOCK), "seccomp"));
}

/* A tick that still waits in a thread that blocks the signal must not kill when the default action is back. */
static volatile bool over;
static void *blocks_until_over(void *unused) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  while (!over) t_burn(0.005);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  t_burn(0.01);
  return unused;
}

Test(no_timers, a_pending_tick_is_gone_after_stop) {
  pthread_t thread;
  refuse(SYS_timer_create, SYS_timer_create, ENOSYS);
  onstack_session *session = t_start(NULL);
  pthread_create(&thread, NULL, blocks_until_over, NULL);
  t_burn(0.2);
  t_finish(session);
  over = true;
  pthread_join(thread, NULL);
}
