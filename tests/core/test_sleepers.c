/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tick of a working thread and one of the process that expire together are a sleeper's EINTR: so the process's clock ticks
 * only for CPU time that no thread's own tick accounts for. How often they meet all the same depends on the machine
 * (docs/SIGNALS.md): what is asked here is when the clock ticks, and that hardly a poll ends by it.
 */
#include "support.h"

#include "sampler/source/process_tick.h"

#include <poll.h>
#include <stdio.h>
#include <sys/time.h>

TestSuite(sleepers, .init = t_setup);

/* What is left until the timer's next tick, in seconds of the process's CPU time. */
static double left_of(int32_t timer) {
  struct onstack_kernel_itimerspec spec;
  cr_assert_eq(onstack_sys_timer_gettime(timer, &spec), 0);
  return (double)spec.value.seconds + (double)spec.value.nanoseconds * 1e-9;
}

Test(sleepers, the_process_is_not_asked_while_its_threads_tick) {
  onstack_options options = t_options(100, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_burn(2.0);
  const onstack_stats stats = t_finish(session);
  cr_log_info("%lu process ticks, %lu ticks", stats.process_ticks, stats.ticks);
  cr_assert_geq(stats.ticks, 190u);
  cr_assert_leq(stats.process_ticks, stats.ticks / 3, "%lu process ticks, %lu ticks", stats.process_ticks, stats.ticks);
}

Test(sleepers, each_tick_of_a_thread_puts_the_process_off) {
  const double period = 0.05;
  onstack_options options = t_options(20, NULL, NULL);
  onstack_session *session = t_start(&options);
  onstack_slot *slot = &onstack_slots[0];
  const int32_t timer = slot->process_clock->record->timer.id;
  const double begin = left_of(timer);
  double left = begin;
  cr_assert(begin > 0 && begin < 2.1 * period, "%.3f", begin);
  for (uint64_t ticks = 1; ticks <= 40; ticks++) {
    const double before = left;
    onstack_add_relaxed(&slot->counters.ticks, (uint64_t)1);
    onstack_process_ticked(slot, onstack_load_relaxed(&slot->counters.ticks));
    left = left_of(timer);
    /* Seldom, for it costs system calls; and never further than the ticks account for. */
    cr_assert(left > before - 0.01 && left < begin + (double)ticks * period + 0.01, "after %lu ticks: %.3f", ticks, left);
  }
  /* Nor for long: such a burst is a thread that has had the signal blocked. */
  cr_assert(left > 7 * period && left < 9.1 * period, "%.3f", left);
  onstack_sub_relaxed(&slot->counters.ticks, (uint64_t)40);
  t_finish(session);
}

/* ---- polls ---- */

#define SLEEPERS 8
#define WORKERS_MOST 4

static uint32_t over;
static uint64_t polls, early;

static void *sleeps(void *data) {
  while (!onstack_load_relaxed(&over)) {
    if (poll(NULL, 0, 5) < 0) onstack_add_relaxed(&early, (uint64_t)1);
    onstack_add_relaxed(&polls, (uint64_t)1);
  }
  return data;
}

static void *works(void *data) {
  while (!onstack_load_relaxed(&over)) t_burn(0.02);
  return data;
}

/* The kernel offers a signal that the interrupted thread has blocked to the next thread of its list, in the order of their
   births (kernel/signal.c, retarget_shared_pending): so each worker is followed by sleepers. */
static unsigned begin(unsigned workers, pthread_t *threads) {
  unsigned count = 0;
  polls = early = over = 0;
  for (unsigned worker = 0; worker < workers; worker++) {
    cr_assert_eq(pthread_create(&threads[count++], NULL, works, NULL), 0);
    for (unsigned i = 0; i < SLEEPERS / workers; i++) cr_assert_eq(pthread_create(&threads[count++], NULL, sleeps, NULL), 0);
  }
  return count;
}

/* Sessions of 0.2 s, as each start draws the phases of the timers anew. */
static void sample_beside_sleepers(unsigned workers, unsigned sessions) {
  pthread_t threads[SLEEPERS + WORKERS_MOST];
  const unsigned count = begin(workers, threads);
  for (unsigned i = 0; i < sessions; i++) {
    onstack_options options = t_options(100, NULL, NULL);
    onstack_session *session = t_start(&options);
    t_sleep(0.2);
    t_finish(session);
  }
  onstack_store_relaxed(&over, 1u);
  for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
  fprintf(stderr, "sleepers: %u busy: %lu of %lu polls ended early\n", workers, early, polls);
}

/* One try that is within the bound shows it: chance and other programs only add. */
static void hardly_one_ends_early(unsigned workers, unsigned sessions, uint64_t one_in, unsigned tries) {
  for (unsigned i = 0; i < tries; i++) {
    sample_beside_sleepers(workers, sessions);
    cr_assert_gt(polls, 300u);
    if (early * one_in <= polls) return;
  }
  cr_assert_fail("more than one poll of 5 ms in %lu ended early, %u times", one_in, tries);
}

/* None of 1,900 each time; 2 to 42 with a clock that is not put off. */
Test(sleepers, hardly_a_poll_ends_early_beside_one_that_works) { hardly_one_ends_early(1, 6, 1000, 2); }

/* 1 to 12 of 2,000 beside other programs, 23 once; 10 to 60 with a clock that is not put off. Threads that share processors
   tick late now and then, and the clock asks some times in a row who else may be working (process_tick.c, process_search). */
Test(sleepers, hardly_a_poll_ends_early_beside_four_that_work) { hardly_one_ends_early(4, 6, 250, 5); }

static volatile sig_atomic_t host_ticks;

static void host_handler(int signal) {
  (void)signal;
  host_ticks++;
}

/* The host's own timer of the process meets ours of the threads, and nobody can put it off: one in 50 to 100
   (docs/SIGNALS.md). */
Test(sleepers, beside_a_timer_of_the_host_few_polls_end_early) {
  struct sigaction host = {.sa_handler = host_handler, .sa_flags = SA_RESTART};
  const struct itimerval each = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
  cr_assert_eq(sigaction(SIGPROF, &host, NULL), 0);
  cr_assert_eq(setitimer(ITIMER_PROF, &each, NULL), 0);
  hardly_one_ends_early(1, 20, 3, 3);
  cr_assert_eq(setitimer(ITIMER_PROF, &none, NULL), 0);
  cr_assert_gt(host_ticks, 0);
}
