/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a sample may stand for: 1 + overruns, up to 250 ms; the rest belongs to no stack. */
#include "support.h"

TestSuite(weight, .init = t_setup);

/* In CPU seconds; first what is asked for, then what it was. */
typedef struct blocker {
  double before, blocked, after;
  int32_t tid;
} blocker;

static void *blocks_and_burns(void *data) {
  blocker *b = data;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  b->tid = onstack_sys_gettid();
  t_burn(b->before);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  b->before = t_thread_cpu();
  t_burn(b->blocked);
  b->blocked = t_thread_cpu() - b->before;
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  t_burn(b->after);
  b->after = t_thread_cpu() - b->before - b->blocked;
  return NULL;
}

static uint32_t heaviest(const t_collector *collector) {
  uint32_t weight = 0;
  for (size_t i = 0; i < collector->count; i++)
    if (collector->samples[i].weight > weight) weight = collector->samples[i].weight;
  return weight;
}

/* `*seconds`: to block for, and then how long it was. */
static onstack_stats blocked_for(double *seconds, uint32_t frequency, t_collector *collector) {
  blocker b = {.before = 0.1, .blocked = *seconds, .after = 0.1};
  pthread_t thread;
  onstack_options options = t_options(frequency, t_collect, collector);
  onstack_session *session = t_start(&options);
  pthread_create(&thread, NULL, blocks_and_burns, &b);
  pthread_join(thread, NULL);
  onstack_stats stats = t_finish(session);
  double period = (double)stats.period * 1e-9;
  *seconds = b.blocked;
  t_near((double)stats.ticks * period, b.before + b.blocked + b.after, 0.12, "every tick is counted once");
  return stats;
}

Test(weight, six_hundred_blocked_milliseconds_are_capped) {
  t_collector *collector = t_collector_new();
  double blocked = 0.6;
  onstack_stats stats = blocked_for(&blocked, 100, collector);
  cr_assert_eq(heaviest(collector), 25, "%u", heaviest(collector));
  t_near((double)stats.unattributed * 0.01, blocked - 0.25, 0.15, "the rest belongs to no stack");
}

Test(weight, the_cap_is_time_whatever_the_rate) {
  t_collector *collector = t_collector_new();
  double blocked = 0.6;
  onstack_stats stats = blocked_for(&blocked, 1000, collector);
  cr_assert_eq(heaviest(collector), 250, "%u", heaviest(collector));
  t_near((double)stats.unattributed * 0.001, blocked - 0.25, 0.15, "the rest");
}

Test(weight, below_the_cap_it_is_all_recorded) {
  t_collector *collector = t_collector_new();
  double blocked = 0.1;
  onstack_stats stats = blocked_for(&blocked, 100, collector);
  /* Beside other programs a processor may become twice as slow in the middle of a burn. */
  if (blocked > 0.23) cr_skip_test("blocked for %.2f s, which is above the cap", blocked);
  cr_assert_eq(stats.unattributed, 0);
  cr_assert_geq(heaviest(collector), 8);
}

/* Slower than four ticks a second: one tick is more than 250 ms and still counts as one. */
Test(weight, at_one_hertz_a_tick_weighs_one) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(1, t_collect, collector);
  onstack_session *session = t_start(&options);
  t_burn(3.3);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(heaviest(collector), 1);
  cr_assert(stats.recorded >= 2 && stats.recorded <= 4, "%lu", stats.recorded);
}

/* Above CONFIG_HZ the weight grows instead of the number of samples. */
Test(weight, a_rate_above_the_kernels_is_made_up_by_weight) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(10000, t_collect, collector);
  onstack_session *session = t_start(&options);
  double before = t_thread_cpu();
  t_burn(0.6);
  double burned = t_thread_cpu() - before;
  onstack_stats stats = t_finish(session);
  t_near((double)(stats.recorded + stats.unattributed) * 1e-4, burned, 0.10, "10,000 Hz");
  cr_assert_lt(stats.samples, stats.recorded);
}
