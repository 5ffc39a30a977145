/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Off is free: before start and after stop there is no signal, timer, thread, descriptor, growing memory. */
#include "sampler/source/arm.h"
#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

TestSuite(traces, .init = t_setup);

static void *burn_a_little(void *unused) {
  t_burn(0.02);
  return unused;
}

static void one_cycle(onstack_switch threads) {
  onstack_options options = t_options(1000, NULL, NULL);
  options.threads = threads;
  onstack_session *session = t_start(&options);
  pthread_t thread;
  pthread_create(&thread, NULL, burn_a_little, NULL);
  pthread_join(thread, NULL);
  t_finish(session);
}

/* Resident bytes of the slot's thread records: they stay, because a late handler may look at them, and are bounded. */
static uint64_t records_resident(void) {
  static unsigned char pages[1024];
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), count = 0;
  uint64_t length = ONSTACK_THREAD_RECORDS * sizeof(onstack_thread);
  uint8_t *base = (uint8_t *)((uintptr_t)onstack_slots[0].threads.records & ~(uintptr_t)(page - 1));
  cr_assert_eq(mincore(base, length, pages), 0);
  for (uint64_t i = 0; i < length / page; i++) count += pages[i] & 1;
  return count * page;
}

Test(traces, two_hundred_cycles_leave_nothing_and_do_not_grow) {
  for (int i = 0; i < 20; i++) one_cycle(i % 2 ? ONSTACK_ON : ONSTACK_OFF);
  t_traces before = t_traces_now();
  uint64_t records = records_resident();
  uint64_t rss = t_rss_bytes() - records;
  for (int i = 0; i < 200; i++) one_cycle(i % 2 ? ONSTACK_ON : ONSTACK_OFF);
  uint64_t records_grown = records_resident();
  uint64_t grown = t_rss_bytes() - records_grown;
  t_traces after = t_traces_now();
  t_same_traces(&before, &after, "200 cycles");
  cr_assert_leq(grown, rss + (256u << 10), "%lu -> %lu KiB", rss >> 10, grown >> 10);
  cr_assert_leq(records_grown, 2u << 20, "the records: %lu -> %lu KiB", records >> 10, records_grown >> 10);
  cr_assert_eq(onstack_timers_held, 0, "the count of timers closes too: %u", onstack_timers_held);
}

Test(traces, a_running_session_has_its_threads_and_timers_and_stop_ends_them) {
  t_traces before = t_traces_now();
  onstack_session *session = t_start(NULL);
  t_traces with = t_traces_now();
  cr_assert_eq(with.threads, before.threads + 1);
  cr_assert_eq(t_threads_named("onstack-drain"), 1);
  cr_assert_geq(with.timers, before.timers + 2, "one a thread and one for the process");
  cr_assert_eq(with.fds, before.fds, "no descriptor stays open");
  cr_assert_eq(onstack_session_stop(session), 0);
  t_traces stopped = t_traces_now();
  t_same_traces(&before, &stopped, "stop alone, before free");
  onstack_session_free(session);
}

Test(traces, no_threads_means_none) {
  t_traces before = t_traces_now();
  onstack_options options = t_options(0, NULL, NULL);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  cr_assert_eq(t_traces_now().threads, before.threads);
  t_finish(session);
}

/* Timers of threads that have ended are reaped while the session runs, once a second. */
Test(traces, timers_of_ended_threads_are_reaped) {
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_traces idle = t_traces_now();
  for (int i = 0; i < 30; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, burn_a_little, NULL);
    pthread_join(thread, NULL);
  }
  cr_assert_geq(t_stats(session).threads_seen, 25, "most of them lived long enough to be found");
  t_sleep(2.3);
  t_traces later = t_traces_now();
  cr_assert_leq(later.timers, idle.timers + 1, "%d timers, %d when idle", later.timers, idle.timers);
  cr_assert_leq(t_stats(session).threads_armed, 2);
  t_finish(session);
}

Test(traces, no_tick_without_cpu_time) {
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_sleep(0.5);
  onstack_stats stats = t_finish(session);
  cr_assert_lt(stats.ticks, 60, "%lu ticks in a process that slept", stats.ticks);
}
