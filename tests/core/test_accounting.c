/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ticks that were due and never came: threads that waited for a processor when the session ended, or block the signal. */
#include "support.h"

#include "sampler/session/slot.h"

#include <math.h>

TestSuite(accounting, .init = t_setup);

#define THREADS 64

static uint32_t burning;
static int32_t tids[THREADS];
static void *burns(void *data) {
  __atomic_store_n((int32_t *)data, onstack_sys_gettid(), __ATOMIC_RELEASE);
  while (__atomic_load_n(&burning, __ATOMIC_RELAXED))
    for (volatile int i = 0; i < 20000; i++) continue;
  return NULL;
}

static double their_cpu(void) {
  double sum = 0;
  for (int i = 0; i < THREADS; i++) sum += t_cpu_of(tids[i]);
  return sum;
}

/* All ticks that were due are accounted for, to within what chance gives: each thread's phase is its own. */
Test(accounting, threads_that_wait_for_a_processor_at_the_end) {
  pthread_t threads[THREADS];
  onstack_options options = t_options(250, NULL, NULL);
  const double period = 1.0 / 250;
  for (unsigned round = 0; round < t_repeat(); round++) {
    burning = 1;
    for (int i = 0; i < THREADS; i++) {
      tids[i] = 0;
      pthread_create(&threads[i], NULL, burns, &tids[i]);
      while (__atomic_load_n(&tids[i], __ATOMIC_ACQUIRE) == 0) t_sleep(0.001);
    }
    double before[2] = {their_cpu()};
    onstack_session *session = t_start(&options);
    before[1] = their_cpu();
    t_sleep(1.5);
    double after[2] = {their_cpu()};
    onstack_stats stats = t_finish(session);
    after[1] = their_cpu();
    burning = 0;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    double chance = 5 * sqrt(THREADS / 12.0) + 2; /* the main thread has a tick or two */
    double least = (after[0] - before[1]) / period - chance, most = (after[1] - before[0]) / period + chance;
    cr_log_info("%lu ticks (%lu when it stopped), %.0f to %.0f due", stats.ticks, stats.dropped_stopping, least, most);
    cr_assert(stats.ticks >= least && stats.ticks <= most, "%lu ticks (%lu when it stopped), %.0f to %.0f were due",
              stats.ticks, stats.dropped_stopping, least, most);
  }
}

static void block_every_signal(void) {
  sigset_t every;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, NULL);
}

/* A session beside a thread that has begun before it. */
static onstack_session *start_beside(void *(*burns_as)(void *), pthread_t *thread) {
  onstack_options options = t_options(100, NULL, NULL);
  burning = 1;
  pthread_create(thread, NULL, burns_as, NULL);
  t_sleep(0.05);
  return t_start(&options);
}

static double blocked_cpu;
static void *burns_blocked(void *data) {
  (void)data;
  block_every_signal();
  while (__atomic_load_n(&burning, __ATOMIC_RELAXED) < 2) t_sleep(0.001);
  t_burn(0.5);
  blocked_cpu = t_thread_cpu();
  __atomic_store_n(&burning, 3u, __ATOMIC_RELEASE);
  while (__atomic_load_n(&burning, __ATOMIC_RELAXED)) t_sleep(0.001);
  return NULL;
}

/* It has no sample, and its time is not silently gone. */
Test(accounting, a_thread_that_blocks_the_signal) {
  pthread_t thread;
  onstack_session *session = start_beside(burns_blocked, &thread);
  __atomic_store_n(&burning, 2u, __ATOMIC_RELAXED);
  while (__atomic_load_n(&burning, __ATOMIC_ACQUIRE) != 3) t_sleep(0.005);
  onstack_stats stats = t_finish(session);
  burning = 0;
  pthread_join(thread, NULL);
  cr_assert_float_eq((double)stats.dropped_stopping, blocked_cpu * 100, 4, "%lu ticks of %.3f s", stats.dropped_stopping,
                     blocked_cpu);
  cr_assert_geq(stats.blocked, 1u);
  cr_assert(stats.dropped_stopping - stats.blocked <= 1, "%lu of %lu", stats.blocked, stats.dropped_stopping);
}

static void *burns_on(void *data) {
  (void)data;
  block_every_signal();
  while (__atomic_load_n(&burning, __ATOMIC_RELAXED)) t_burn(0.01);
  return NULL;
}

/* A service's session has no end at which it would be told, and the thread's time goes to nobody else. */
Test(accounting, a_thread_that_blocks_the_signal_is_known_while_it_runs) {
  pthread_t thread;
  onstack_session *session = start_beside(burns_on, &thread);
  const double begin = t_now();
  onstack_stats stats = t_stats(session);
  while (stats.blocked < 50 && t_now() < begin + 20) {
    t_sleep(0.01);
    stats = t_stats(session);
  }
  const double due = (double)stats.cpu_ns * 1e-7;
  cr_assert(stats.blocked >= 50 && (double)stats.blocked <= due + 1, "%lu of %.0f", stats.blocked, due);
  cr_assert_leq(stats.ticks, 10u);
  burning = 0;
  pthread_join(thread, NULL);
  t_finish(session);
}

/* Its ticks are counted as its own, and the thread that goes on has no more than it has used. */
Test(accounting, a_thread_that_blocks_the_signal_and_ends) {
  pthread_t thread;
  onstack_session *session = start_beside(burns_on, &thread);
  const double begin = t_now();
  while (t_stats(session).blocked < 50 && t_now() < begin + 20) t_sleep(0.01);
  burning = 0;
  pthread_join(thread, NULL);
  const double before = t_thread_cpu();
  t_burn(0.5);
  const double used = t_thread_cpu() - before;
  const onstack_stats stats = t_finish(session);
  cr_assert_geq(stats.blocked, 50u);
  cr_assert(stats.dropped_stopping - stats.blocked <= 1, "%lu of %lu", stats.blocked, stats.dropped_stopping);
  cr_assert_leq((double)(stats.ticks - stats.dropped_stopping), used * 100 + 15, "%lu ticks, %.3f s", stats.ticks, used);
}

/* What ticks should come to is told beside them. */
Test(accounting, the_cpu_time_of_the_process) {
  onstack_options options = t_options(100, NULL, NULL);
  const double before = t_process_cpu();
  onstack_session *session = t_start(&options);
  const double begin = t_process_cpu();
  t_burn(0.3);
  const onstack_stats now = t_stats(session);
  const double middle = t_process_cpu();
  t_burn(0.1);
  const double end = t_process_cpu();
  const onstack_stats stats = t_finish(session);
  const double least = end - begin - 0.01, most = t_process_cpu() - before + 0.001; /* ours left out */
  cr_assert((double)now.cpu_ns * 1e-9 > middle - begin - 0.02 && (double)now.cpu_ns * 1e-9 < middle - before + 0.001,
            "%lu ns", now.cpu_ns);
  cr_assert((double)stats.cpu_ns * 1e-9 > least && (double)stats.cpu_ns * 1e-9 < most, "%lu ns", stats.cpu_ns);
  options.clock = ONSTACK_CLOCK_WALL_SIGNAL;
  session = t_start(&options);
  cr_assert_eq(t_finish(session).cpu_ns, 0u);
}

/* A scan finds a thread late. What it has used until then comes with its first tick, as far as nobody else has had it. */
Test(accounting, a_thread_that_a_scan_has_found) {
  enum { PERIODS_LOST = 10, BEFORE = 6 };
  onstack_options options = t_options(100, NULL, NULL);
  for (int lost = 0; lost <= PERIODS_LOST; lost += PERIODS_LOST) {
    onstack_session *session = t_start(&options);
    onstack_slot *slot = &onstack_slots[0];
    onstack_thread *record = onstack_thread_find(&slot->threads, (uint32_t)onstack_sys_gettid());
    cr_assert_not_null(record);
    slot->process_start_ns -= (uint64_t)lost * slot->period;
    onstack_store_relaxed(&record->timer.before, (uint16_t)BEFORE);
    const double begin = t_thread_cpu();
    t_burn(0.3);
    const double own = (t_thread_cpu() - begin) * 100, wanted = own + (lost ? BEFORE : 0);
    const onstack_stats stats = t_finish(session);
    cr_assert((double)stats.ticks > wanted - 2 && (double)stats.ticks < wanted + 2, "%lu ticks, %.1f", stats.ticks, wanted);
    cr_assert_eq(onstack_load_relaxed(&record->timer.before), 0);
  }
}

/* And nothing is counted twice: one thread that burns and then waits has no tick left over. */
Test(accounting, a_thread_that_sleeps_at_the_end) {
  onstack_options options = t_options(100, NULL, NULL);
  for (unsigned round = 0; round < 2 * t_repeat(); round++) {
    double before = t_thread_cpu();
    onstack_session *session = t_start(&options);
    double begin = t_thread_cpu();
    t_burn(0.2);
    t_sleep(0.01);
    double end = t_thread_cpu();
    onstack_stats stats = t_finish(session);
    double least = (end - begin) * 100 - 2, most = (t_thread_cpu() - before) * 100 + 2;
    cr_assert_leq(stats.dropped_stopping, 1u);
    cr_assert_eq(stats.blocked, 0u);
    cr_assert(stats.ticks >= least && stats.ticks <= most, "%lu ticks, %.1f to %.1f were due", stats.ticks, least, most);
  }
}

/* ---- timers that are made at the instant of a stop: what they leave behind must not be taken for ticks ---- */

static void *sleeps(void *data) {
  (void)data;
  while (__atomic_load_n(&burning, __ATOMIC_RELAXED)) t_sleep(0.02);
  return NULL;
}

/* On the wall clock a look at the threads arms those anew that have had no tick: here all of them, in the first look. */
Test(accounting, a_look_at_sleeping_threads_while_it_stops, .timeout = 100) {
  pthread_t threads[4 * THREADS];
  onstack_options options = t_options(4, NULL, NULL);
  options.clock = ONSTACK_CLOCK_WALL_SIGNAL;
  signal(SIGPROF, SIG_DFL); /* a timer that is left over kills */
  burning = 1;
  for (int i = 0; i < 4 * THREADS; i++) pthread_create(&threads[i], NULL, sleeps, NULL);
  for (unsigned round = 0; round < 40 * t_repeat(); round++) {
    double begin = t_now();
    onstack_session *session = t_start(&options);
    t_sleep(0.05 + 0.0005 * (round % 20));
    onstack_stats stats = t_finish(session);
    double most = (4 * THREADS + 2) * (1 + 4 * (t_now() - begin));
    cr_assert(stats.ticks <= most, "round %u: %lu ticks (%lu when it stopped), at most %.0f were due", round, stats.ticks,
              stats.dropped_stopping, most);
  }
  burning = 0;
  for (int i = 0; i < 4 * THREADS; i++) pthread_join(threads[i], NULL);
}

static void *comes_and_goes(void *data) {
  (void)data;
  t_burn(0.003);
  return NULL;
}

static void *makes_threads(void *data) {
  pthread_t threads[8];
  (void)data;
  while (__atomic_load_n(&burning, __ATOMIC_RELAXED)) {
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, comes_and_goes, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  }
  return NULL;
}

/* On the CPU clock new threads arm themselves in the handler of the process tick. */
Test(accounting, new_threads_while_it_stops, .timeout = 100) {
  pthread_t thread;
  onstack_options options = t_options(10000, NULL, NULL);
  burning = 1;
  pthread_create(&thread, NULL, makes_threads, NULL);
  for (unsigned round = 0; round < 200 * t_repeat(); round++) {
    double begin = t_process_cpu();
    onstack_session *session = t_start(&options);
    t_sleep(0.005);
    onstack_stats stats = t_finish(session);
    double most = (t_process_cpu() - begin) * 10000 + 100;
    cr_assert(stats.ticks <= most, "round %u: %lu ticks (%lu when it stopped), at most %.0f were due", round, stats.ticks,
              stats.dropped_stopping, most);
  }
  burning = 0;
  pthread_join(thread, NULL);
}

static void *lives_a_moment(void *data) {
  (void)data;
  t_sleep(0.2);
  return NULL;
}

/* The wall clock goes on for them. (They end after the first look at the threads, and before the second.) */
Test(accounting, threads_that_ended_before_it_stops) {
  pthread_t threads[20];
  onstack_options options = t_options(100, NULL, NULL);
  options.clock = ONSTACK_CLOCK_WALL_SIGNAL;
  for (int i = 0; i < 20; i++) pthread_create(&threads[i], NULL, lives_a_moment, NULL);
  double begin = t_now();
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 20; i++) pthread_join(threads[i], NULL);
  double lived = t_now() - begin;
  t_sleep(0.7);
  onstack_stats stats = t_finish(session);
  double others = (double)stats.threads_seen - 20; /* Criterion has a thread that blocks every signal */
  double most = others * (1 + 100 * (t_now() - begin)) + 20 * (1 + 100 * lived);
  cr_assert(stats.ticks <= most, "%lu ticks (%lu when it stopped), at most %.0f were due", stats.ticks,
            stats.dropped_stopping, most);
}
