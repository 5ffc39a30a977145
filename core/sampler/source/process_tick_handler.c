/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/process_tick.h"

#include "sampler/source/arm.h"
#include "sampler/signal/own_threads.h"

#include <time.h>

/* How often a process tick may meet a thread between two of its own ticks before we doubt its timer: to look at it costs
   less than a process tick. */
#define PROCESS_DOUBT 4u

/* See process_search. */
#define PROCESS_LOOKS_MOST 16u
#define PROCESS_RESTS_MOST 3u

ONSTACK_HANDLER bool onstack_process_read(const onstack_slot *slot, uint64_t *ns) {
  if (!onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, ns)) return false;
  if (!slot->own_threads) *ns -= onstack_load_relaxed(&onstack_own_cpu_ns);
  return true;
}

ONSTACK_HANDLER bool onstack_process_used(const onstack_slot *slot, uint64_t *ns) {
  uint64_t now_ns;
  if (slot->process_start_ns == 0 || !onstack_process_read(slot, &now_ns)) return false;
  /* Our own threads' share is taken off at the end of each of their rounds: it may be less than at the start for a moment. */
  const int64_t used_ns = (int64_t)(now_ns - slot->process_start_ns);
  *ns = used_ns > 0 ? (uint64_t)used_ns : 0;
  return true;
}

ONSTACK_HANDLER uint64_t onstack_process_unaccounted(const onstack_slot *slot) {
  const uint64_t accounted = onstack_load_relaxed(&slot->counters.ticks) + onstack_load_relaxed(&slot->counters.waiting);
  uint64_t cpu_ns;
  if (!onstack_process_used(slot, &cpu_ns)) return UINT64_MAX;
  const int64_t unaccounted = (int64_t)(cpu_ns / slot->period - accounted);
  return unaccounted > 0 ? (uint64_t)unaccounted : 0;
}

ONSTACK_HANDLER uint64_t onstack_process_brings(onstack_process_clock *clock, const siginfo_t *info) {
  if (onstack_process_is_handed_on(info)) return onstack_load_relaxed(&clock->handed_ns);
  const uint64_t expired_ns = onstack_ticks_of(info) * onstack_load_relaxed(&clock->period_ns);
  const uint64_t spread_ns = onstack_load_relaxed(&clock->spread_ns);
  uint64_t now_ns;
  if (!onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &now_ns)) return expired_ns;
  const int64_t since_ns = (int64_t)(now_ns - onstack_load_relaxed(&clock->met_ns));
  onstack_store_relaxed(&clock->met_ns, now_ns);
  const uint64_t used_ns = since_ns <= 0 ? 0 : (uint64_t)since_ns < spread_ns ? (uint64_t)since_ns : spread_ns;
  return used_ns > expired_ns ? used_ns : expired_ns;
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

/* What is due by the leader's ticks and our own threads: `expires_ns` moves along with it. */
static ONSTACK_HANDLER uint64_t process_accounted(const onstack_process_clock *clock, const onstack_slot *leader) {
  const uint64_t own_ns = leader->own_threads ? 0 : onstack_load_relaxed(&onstack_own_cpu_ns);
  return onstack_load_relaxed(&leader->counters.ticks) * clock->period_ns + own_ns;
}

static ONSTACK_HANDLER uint64_t process_random(const onstack_process_clock *clock, uint64_t most) {
  return onstack_arm_random(clock->record, 0, clock->generation, most);
}

/* For timers that threads of a session were refused: it ticks each period, for the leader's ticks say nothing of those. */
static ONSTACK_HANDLER bool process_stands_in(const onstack_process_clock *clock) {
  if (!onstack_load_relaxed(&onstack_timers_refused)) return false; /* eight cache lines less */
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    const onstack_slot *slot = &onstack_slots[i];
    if (onstack_load_relaxed(&slot->process_clock) == clock && onstack_load_relaxed(&slot->counters.threads_unarmed) > 0)
      return true;
  }
  return false;
}

/* A handler never waits: one that finds another one setting the clock leaves it to that. */
static ONSTACK_HANDLER bool process_hold(onstack_process_clock *clock) {
  uint32_t expected = 0;
  return onstack_cas(&clock->setting, &expected, 1u);
}

static ONSTACK_HANDLER void process_let_go(onstack_process_clock *clock) { onstack_publish(&clock->setting, 0u); }

/* From which tick of the leader on putting it off is worth two system calls: when a step and a half are left. */
static ONSTACK_HANDLER void process_look(onstack_process_clock *clock, const onstack_slot *leader, uint64_t left_ns) {
  const uint64_t enough_ns = clock->step_ns + clock->step_ns / 2;
  const uint64_t ticks = left_ns > enough_ns ? (left_ns - enough_ns) / clock->period_ns : 0;
  onstack_store_relaxed(&clock->look_at, onstack_load_relaxed(&leader->counters.ticks) + (ticks > 0 ? ticks : 1));
}

static ONSTACK_HANDLER int process_set(onstack_process_clock *clock, uint64_t at_ns, uint64_t *left_ns) {
  clock->expires_ns = at_ns;
  return onstack_timer_set_at(&clock->record->timer, at_ns, clock->period_ns, !clock->uncounted, left_ns);
}

/* The next tick comes when the process has used `after_ns`; `still`: whatever ticks meanwhile. Held. */
static ONSTACK_HANDLER int process_set_after(onstack_process_clock *clock, const onstack_slot *leader, uint64_t after_ns,
                                             bool still) {
  uint64_t now_ns;
  if (!onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &now_ns)) return -1;
  clock->uncounted = false;
  const int result = process_set(clock, now_ns + after_ns, NULL);
  clock->unticked_ns = clock->expires_ns - process_accounted(clock, leader);
  process_look(clock, leader, after_ns);
  if (still) onstack_store_relaxed(&clock->look_at, UINT64_MAX);
  return result;
}

int onstack_process_begin(onstack_process_clock *clock, onstack_slot *leader) {
  clock->looks = clock->rests = 0;
  clock->looks_most = 1;
  onstack_store_relaxed(&clock->period_ns, leader->period); /* handlers read it */
  clock->blind = process_set_after(clock, leader, 2 * clock->step_ns, false) != 0;
  if (!clock->blind) return 0;
  /* A filter lets nobody read the clock: it ticks each period. */
  onstack_store_relaxed(&clock->look_at, UINT64_MAX);
  onstack_timer_reset(&clock->record->timer);
  return onstack_timer_set(&clock->record->timer, CLOCK_PROCESS_CPUTIME_ID, clock->period_ns, clock->period_ns);
}

/*
 * A tick has met a thread that has a timer. Either another one works that has none, or nobody is missing: the ticks of
 * threads are late by what the kernel's tick and the wait for a processor take, and that adds up and changes. So it comes again
 * soon for some times, longer each time that this was in vain, and then not before more is unaccounted for than now: what is
 * late does not grow, what is missing does.
 *
 * It goes to the thread that crosses its instant, and all processors look at the same moment, one after the other, each with
 * what its own thread has used: an instant that is not spread over all that work leaves some out.
 */
static ONSTACK_HANDLER void process_search(onstack_process_clock *clock, const onstack_slot *leader) {
  if (++clock->looks <= clock->looks_most) {
    process_set_after(clock, leader, process_random(clock, clock->spread_ns), true);
    return;
  }
  clock->looks = 0;
  if (clock->rests < PROCESS_RESTS_MOST) clock->rests++;
  process_set_after(clock, leader, (clock->step_ns << clock->rests) + process_random(clock, clock->step_ns), false);
  if (clock->looks_most < PROCESS_LOOKS_MOST) clock->looks_most *= 4;
}

/* While ticks are unaccounted for the search goes on; else it comes again by itself, in a period of what is unaccounted for. */
static ONSTACK_HANDLER void process_found(onstack_process_clock *clock, const onstack_slot *leader, uint64_t expiries) {
  clock->looks = clock->rests = 0;
  if (onstack_process_unaccounted(leader) > 0) {
    process_set_after(clock, leader, process_random(clock, clock->spread_ns), true);
    return;
  }
  clock->expires_ns += expiries * clock->period_ns;
  clock->unticked_ns = clock->expires_ns - process_accounted(clock, leader);
  process_look(clock, leader, clock->period_ns);
}

ONSTACK_HANDLER_APART void onstack_process_met(onstack_process_clock *clock, const siginfo_t *info, bool found) {
  if (onstack_process_is_handed_on(info)) return;
  const onstack_slot *leader = onstack_dekker_load(&clock->leader);
  if (!leader || clock->blind || process_stands_in(clock) || !process_hold(clock)) return;
  if (onstack_timer_state_of(&clock->record->timer) == ONSTACK_TIMER_ARMED) {
    if (found)
      process_found(clock, leader, onstack_ticks_of(info));
    else
      process_search(clock, leader);
  }
  process_let_go(clock);
}

/* When the clock has expired already, its tick is on its way, and says when the next one comes. */
static ONSTACK_HANDLER void process_put_off(onstack_process_clock *clock, const onstack_slot *leader) {
  uint64_t now_ns, left_ns;
  if (!onstack_timer_read_clock(CLOCK_PROCESS_CPUTIME_ID, &now_ns) || now_ns >= clock->expires_ns) return;
  const uint64_t before_ns = clock->expires_ns, most_ns = now_ns + (clock->step_ns << PROCESS_RESTS_MOST) + clock->step_ns;
  uint64_t at_ns = clock->unticked_ns + process_accounted(clock, leader);
  if ((int64_t)(at_ns - most_ns) > 0) { /* a thread has had the signal blocked, and all its ticks come at once */
    at_ns = most_ns;
    clock->unticked_ns = at_ns - process_accounted(clock, leader);
  }
  if ((int64_t)(at_ns - before_ns) >= (int64_t)(clock->period_ns / 2) && process_set(clock, at_ns, &left_ns) == 0 &&
      left_ns > before_ns - now_ns) {
    clock->uncounted = true;
    onstack_timer_due_from(&clock->record->timer, before_ns);
  }
  process_look(clock, leader, clock->expires_ns - now_ns);
}

ONSTACK_HANDLER_APART void onstack_process_put_off(onstack_process_clock *clock, const onstack_slot *slot) {
  /* Before the looks: stop changes both and then waits for us. */
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_inside_enter(&clock->inside, tid);
  if (process_stands_in(clock))
    onstack_store_relaxed(&clock->look_at, UINT64_MAX);
  else if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING && onstack_dekker_load(&clock->leader) == slot &&
           onstack_timer_state_of(&clock->record->timer) == ONSTACK_TIMER_ARMED && process_hold(clock)) {
    process_put_off(clock, slot);
    process_let_go(clock);
  }
  onstack_inside_leave(&clock->inside, tid);
}
