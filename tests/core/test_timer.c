/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A timer's state alone: who takes it, what is refused, and the accounting of its ticks. */
#include "sampler/source/arm.h"
#include "support.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(timer, .init = t_setup);

#define PERIOD_NS 1000000u

/* A record of a slot that runs no session: enough to be armed. */
static onstack_thread *claim(onstack_slot **out, uint32_t tid) {
  static onstack_slot slot = {.signal = SIGPROF, .period = 3600000000000u};
  void *memory = calloc(1, onstack_thread_region_bytes() + 4096);
  onstack_thread_region_set((void *)(((uintptr_t)memory + 4095) & ~(uintptr_t)4095));
  onstack_thread_table_init(&slot.threads, 0);
  onstack_timers_held = 0;
  onstack_timers_allowed = 1;
  *out = &slot;
  return onstack_thread_claim(&slot.threads, tid);
}

static onstack_timer_state state(const onstack_thread *record) { return onstack_timer_state_of(&record->timer); }

static bool kernel_has(int32_t id) {
  struct onstack_kernel_itimerspec spec;
  return onstack_sys_timer_gettime(id, &spec) == 0;
}

Test(timer, is_armed_and_taken_once) {
  onstack_slot *slot;
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_thread *record = claim(&slot, tid);
  int32_t id = -1, again = -1;
  cr_assert_eq(state(record), ONSTACK_TIMER_NONE);
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
  cr_assert_eq(state(record), ONSTACK_TIMER_ARMED);
  cr_assert_eq(onstack_timers_held, 1);
  cr_assert(onstack_timer_ticks_as(&record->timer, record->timer.id));
  cr_assert_not(onstack_timer_ticks_as(&record->timer, record->timer.id + 1));
  cr_assert(onstack_timer_take(&record->timer, ONSTACK_TIMER_STOPPED, &id));
  cr_assert_not(onstack_timer_take(&record->timer, ONSTACK_TIMER_NONE, &again));
  cr_assert_not(onstack_timer_ticks_as(&record->timer, id), "a stopped timer's tick is late");
  cr_assert(kernel_has(id));
  onstack_arm_remove(id);
  cr_assert_not(kernel_has(id));
  cr_assert_eq(onstack_timers_held, 0);
  onstack_timer_clear(&record->timer);
  cr_assert_eq(state(record), ONSTACK_TIMER_NONE);
}

Test(timer, is_refused_where_the_quota_is_used_up) {
  onstack_slot *slot;
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_thread *record = claim(&slot, tid);
  onstack_timers_allowed = 0;
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
  cr_assert_eq(state(record), ONSTACK_TIMER_REFUSED);
  cr_assert_eq(onstack_timers_held, 0);
  cr_assert_eq(slot->counters.threads_unarmed, 1);
}

static void *is_nobody(void *tid) {
  *(uint32_t *)tid = (uint32_t)onstack_sys_gettid();
  return NULL;
}

Test(timer, is_refused_to_a_thread_that_has_ended) {
  onstack_slot *slot;
  pthread_t thread;
  uint32_t tid;
  cr_assert_eq(pthread_create(&thread, NULL, is_nobody, &tid), 0);
  pthread_join(thread, NULL);
  while (onstack_sys_call3(SYS_tgkill, onstack_sys_getpid(), (long)tid, 0) == 0) t_sleep(0.001);
  onstack_thread *record = claim(&slot, tid);
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
  cr_assert_eq(state(record), ONSTACK_TIMER_REFUSED);
  cr_assert_eq(onstack_timers_held, 0);
  cr_assert_eq(slot->counters.threads_unarmed, 0, "it is not one that goes without");
}

/* ---- two who take it, as stop and housekeeping do ---- */

typedef struct race {
  onstack_timer timer;
  uint32_t round, done; /* publish / observe */
  uint32_t taken[2];
} race;

#define ROUNDS 200000u

static void race_take(race *it, int who) {
  int32_t id = -1;
  if (!onstack_timer_take(&it->timer, who == 0 ? ONSTACK_TIMER_STOPPED : ONSTACK_TIMER_NONE, &id)) return;
  cr_assert_eq(id, (int32_t)it->round);
  it->taken[who]++;
}

static void *race_other(void *data) {
  race *it = data;
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    for (uint32_t spins = 0; onstack_observe(&it->round) != round; spins++)
      if (spins > 1000) sched_yield();
    race_take(it, 1);
    onstack_publish(&it->done, round);
  }
  return NULL;
}

Test(timer, one_of_two_takes_it, .timeout = 100) {
  race it;
  pthread_t other;
  memset(&it, 0, sizeof(it));
  cr_assert_eq(pthread_create(&other, NULL, race_other, &it), 0);
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    onstack_timer_clear(&it.timer);
    cr_assert(onstack_timer_move(&it.timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_ARMING));
    it.timer.id = (int32_t)round;
    cr_assert(onstack_timer_move(&it.timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_ARMED));
    onstack_publish(&it.round, round);
    race_take(&it, 0);
    for (uint32_t spins = 0; onstack_observe(&it.done) != round; spins++)
      if (spins > 1000) sched_yield();
    cr_assert_eq(it.taken[0] + it.taken[1], round);
  }
  pthread_join(other, NULL);
}

/* ---- the accounting ---- */

Test(timer, due_is_what_has_come_and_what_should_have) {
  onstack_timer timer = {.state = ONSTACK_TIMER_STOPPED, .ticks = 5, .first = 1000};
  const uint64_t sixth_ns = 1000 * ONSTACK_TIMER_UNIT + 5 * PERIOD_NS, rounding_ns = 2 * ONSTACK_TIMER_UNIT;
  cr_assert_eq(onstack_timer_due(&timer, PERIOD_NS, sixth_ns - 1), 5, "the sixth comes in a nanosecond");
  cr_assert_eq(onstack_timer_due(&timer, PERIOD_NS, sixth_ns + rounding_ns), 6);
  cr_assert_eq(onstack_timer_due(&timer, PERIOD_NS, sixth_ns + 2 * PERIOD_NS - 1), 7);
  cr_assert_eq(onstack_timer_due(&timer, PERIOD_NS, sixth_ns + 2 * PERIOD_NS + rounding_ns), 8);
  cr_assert_eq(onstack_timer_due(&timer, PERIOD_NS, 0), 5, "a clock that cannot be read");
  timer.first = 0;
  cr_assert_eq(onstack_timer_due(&timer, PERIOD_NS, sixth_ns), 5, "a first tick that is not known");
}

/* A thread of an allocator that blocks every signal as long as a server runs. */
Test(timer, due_counts_hours_of_a_thread_that_blocks_the_signal) {
  const uint64_t first_ns = 3 * PERIOD_NS, hours_ns = (uint64_t)12 * 3600 * 1000000000u;
  onstack_timer timer = {.state = ONSTACK_TIMER_ARMING};
  onstack_timer_due_from(&timer, first_ns);
  cr_assert_eq(onstack_timer_due(&timer, PERIOD_NS, first_ns + hours_ns + PERIOD_NS / 2), 1 + hours_ns / PERIOD_NS);
}

Test(timer, missing_is_what_was_due_and_has_not_come) {
  onstack_timer timer = {.state = ONSTACK_TIMER_STOPPED, .ticks = 5};
  cr_assert_eq(onstack_timer_missing(&timer, 8), 3);
  timer.ticks = 9; /* one that was inside the handler */
  cr_assert_eq(onstack_timer_missing(&timer, 8), 0);
  timer.ticks = 5;
  timer.state = ONSTACK_TIMER_REFUSED;
  cr_assert_eq(onstack_timer_missing(&timer, 8), 0, "who had none misses none");
}
