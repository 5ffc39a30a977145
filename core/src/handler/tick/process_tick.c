/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/tick/process_tick.h"

#include "handler/tick/arm.h"
#include "handler/tick/own_threads.h"

#include <time.h>

ONSTACK_INTERNAL_DEFINE onstack_process_clock onstack_process_clocks[ONSTACK_MAX_SESSIONS];

/* How often a process tick may meet a thread between two of its own ticks before we doubt its timer. Both come at
   rate 1/T of the thread's CPU time, so eight in a row do not happen by chance to a living timer. */
#define PROCESS_DOUBT 8u

ONSTACK_HANDLER bool onstack_process_read(const onstack_slot *slot, uint64_t *ns) {
  if (!onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, ns)) return false;
  if (!slot->own_threads) *ns -= onstack_load_relaxed(&onstack_own_cpu_ns);
  return true;
}

ONSTACK_HANDLER_APART bool onstack_process_revive(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  onstack_timer *timer = &record->timer;
  uint64_t left_ns;
  int32_t id;
  if (onstack_add_relaxed(&timer->meetings, (uint8_t)1) + 1u < PROCESS_DOUBT) return false;
  onstack_store_relaxed(&timer->meetings, (uint8_t)0);
  /* An armed timer of a living thread always has time left; one whose thread is gone reads zero. */
  if (onstack_timer_left(timer, &left_ns) < 0 || left_ns != 0) return false;
  if (!onstack_timer_take(timer, ONSTACK_TIMER_ARMING, &id)) return false;
  onstack_arm_remove(id);
  onstack_arm(slot, record, tid, onstack_timer_cpu_clock(tid));
  return true;
}

ONSTACK_HANDLER int onstack_process_set(onstack_process_clock *clock, uint64_t period_ns, uint64_t first_ns) {
  onstack_timer_reset(&clock->record->timer);
  return onstack_timer_set(&clock->record->timer, CLOCK_PROCESS_CPUTIME_ID, first_ns, period_ns);
}

/* Stop waits for us before it takes the timer away. */
static ONSTACK_HANDLER void process_move(onstack_process_clock *clock, uint64_t period_ns, uint64_t first_ns) {
  if (onstack_timer_state_of(&clock->record->timer) == ONSTACK_TIMER_ARMED) onstack_process_set(clock, period_ns, first_ns);
}

/*
 * Both expire at a tick of the kernel, and at the same one whenever they are nearer to each other than two of these are: with
 * one thread at work, always or never. So the process's next tick comes halfway between two of the thread's. When it has gone
 * astray, the thread that it was meant for is not known: another phase, until one is found that meets a thread at work. In half
 * a period at the earliest and one and a half at the latest; what samples weigh does not depend on when it comes (entry.c,
 * entry_unaccounted). With rates near the kernel's, or several threads at work, they meet all the same.
 */
ONSTACK_HANDLER_APART void onstack_process_keep_apart(onstack_process_clock *clock, const onstack_timer *timer,
                                                      bool ended_call) {
  const uint64_t period_ns = onstack_load_relaxed(&clock->period_ns);
  uint64_t left_ns;
  if (period_ns == 0) return;
  if (ended_call) {
    const uint32_t id = (uint32_t)onstack_load_relaxed(&timer->id);
    process_move(clock, period_ns, period_ns / 2 + onstack_arm_random(clock->record, id, clock->generation, period_ns));
    return;
  }
  if (onstack_timer_left(timer, &left_ns) < 0) return;
  left_ns %= period_ns;
  if (left_ns >= period_ns / 4 && left_ns < period_ns - period_ns / 4) return; /* they are */
  const uint64_t first_ns = (left_ns + period_ns / 2) % period_ns;
  process_move(clock, period_ns, first_ns < period_ns / 2 ? first_ns + period_ns : first_ns);
}
