/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread of ours sends the ticks, round by round: one under way at a time, what it stands for, and who comes again. */
#include "sampler/source/discovery.h"
#include "support.h"

#include <stdlib.h>
#include <time.h>

TestSuite(ticker, .init = t_setup, .timeout = 60);

#define PERIOD_NS 1000000u
#define SIGNAL (SIGRTMIN + 1) /* it is queued: a tick too many would be seen */

static onstack_slot slot = {.signal = 0, .period = PERIOD_NS, .state = ONSTACK_SLOT_RUNNING};
static const onstack_thread_timers *const ticker = &onstack_ticker_timers;

static onstack_thread *begin(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGNAL);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  void *memory = calloc(1, onstack_thread_region_bytes() + 4096);
  onstack_thread_region_set((void *)(((uintptr_t)memory + 4095) & ~(uintptr_t)4095));
  onstack_thread_table_init(&slot.threads, 0);
  slot.signal = SIGNAL;
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  cr_assert_eq(onstack_ticker_prepare(&slot, "ticker", false), 0);
  onstack_thread *record = onstack_thread_claim(&slot.threads, tid);
  ticker->arm(&slot, record, tid);
  cr_assert_eq(onstack_timer_state_of(&record->timer), ONSTACK_TIMER_ARMED);
  return record;
}

/* The ticks that wait, taken off the queue as a handler would; *weight: what they stand for together. */
static int waiting(const onstack_thread *record, uint32_t *weight) {
  const struct timespec none = {0, 0};
  siginfo_t info;
  sigset_t set;
  int ticks = 0;
  *weight = 0;
  sigemptyset(&set);
  sigaddset(&set, SIGNAL);
  while (sigtimedwait(&set, &info, &none) == SIGNAL) {
    cr_assert_eq(info.si_code, SI_TIMER);
    cr_assert(onstack_timer_ticks_as(&record->timer, info.si_timerid));
    cr_assert_eq(onstack_thread_from_cookie((uint64_t)(uintptr_t)info.si_value.sival_ptr).record, record);
    *weight += 1 + (uint32_t)info.si_overrun;
    ticks++;
  }
  return ticks;
}

/* Rounds for several periods. */
static void rounds(void) {
  for (int i = 0; i < 8; i++) {
    onstack_ticker_round(&slot);
    t_sleep(0.001);
  }
}

Test(ticker, sends_one_at_a_time_and_makes_the_rest_overruns) {
  onstack_thread *record = begin();
  uint32_t weight;
  rounds();
  cr_assert_eq(waiting(record, &weight), 1);
  rounds();
  uint32_t more;
  cr_assert_eq(waiting(record, &more), 0, "the one before has not been handled");
  onstack_add_relaxed(&record->timer.ticks, weight);
  onstack_ticker_round(&slot);
  cr_assert_eq(waiting(record, &more), 1);
  cr_assert_gt(more, 1, "and stands for what was due meanwhile");
}

Test(ticker, a_thread_that_comes_under_the_same_id_gets_its_own) {
  onstack_thread *record = begin();
  int32_t id;
  uint32_t weight;
  rounds();
  cr_assert_eq(waiting(record, &weight), 1, "never handled: its thread has ended");
  cr_assert(onstack_timer_take(&record->timer, ONSTACK_TIMER_NONE, &id));
  ticker->remove(id);
  onstack_thread_release(&slot.threads, record);
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  cr_assert_eq(onstack_thread_claim(&slot.threads, tid), record);
  ticker->arm(&slot, record, tid);
  rounds();
  cr_assert_eq(waiting(record, &weight), 1);
}

Test(ticker, sends_nothing_to_a_record_that_is_not_armed) {
  onstack_thread *record = begin();
  int32_t id;
  uint32_t weight;
  cr_assert(onstack_timer_take(&record->timer, ONSTACK_TIMER_STOPPED, &id));
  rounds();
  cr_assert_eq(waiting(record, &weight), 0);
}
