/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/tick/process_clock.h"

#include "handler/tick/clock.h"

#include <time.h>

/* Sessions of a clock other than this one, and the shortest of their periods. */
static uint32_t process_clock_others(const onstack_process_clock *clock, const onstack_slot *self, uint64_t *period_ns) {
  uint32_t others = 0;
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    const onstack_slot *slot = &onstack_slots[i];
    if (slot == self || slot->process_clock != clock) continue;
    if (others++ == 0 || slot->period_ns < *period_ns) *period_ns = slot->period_ns;
  }
  return others;
}

/* That of the signal, or a free one: there are as many as sessions. */
static onstack_process_clock *process_clock_find(int32_t signal) {
  onstack_process_clock *found = NULL;
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_process_clock *clock = &onstack_process_clocks[i];
    if (!clock->record) clock->record = onstack_thread_of_process_clock(i);
    if (clock->signal == signal) return clock;
    if (clock->signal == 0 && !found) found = clock;
  }
  return found;
}

static int process_clock_make(onstack_process_clock *clock, int32_t signal) {
  clock->signal = signal;
  clock->period_ns = 0; /* it does not tick yet */
  const int result = onstack_clock_create_process(clock);
  if (result < 0) clock->signal = 0;
  return result;
}

int onstack_process_clock_join(onstack_slot *slot) {
  if (slot->clock == ONSTACK_CLOCK_WALL)
    return onstack_clock_try(CLOCK_MONOTONIC, slot->signal, (uint32_t)onstack_sys_gettid());
  int result = onstack_clock_try(CLOCK_PROCESS_CPUTIME_ID, slot->signal, 0);
  if (result < 0) return result;
  onstack_process_clock *clock = process_clock_find(slot->signal);
  if (clock->signal == 0) result = process_clock_make(clock, slot->signal);
  if (result == 0) slot->process_clock = clock;
  return result;
}

/* A handler never waits, so this ends as soon as the thread that runs it gets the processor. */
static void process_clock_wait(const onstack_process_clock *clock) {
  const struct timespec pause = {0, 50000};
  while (onstack_dekker_load(&clock->record->busy) != 0) nanosleep(&pause, NULL);
}

/* The next tick comes a whole period from now: earlier ones would find threads more often than the sessions want. */
static int process_clock_set(onstack_process_clock *clock, uint64_t period_ns) {
  if (clock->period_ns == period_ns) return 0;
  onstack_dekker_store(&clock->period_ns, period_ns);
  process_clock_wait(clock); /* one that knows the old period may be setting it */
  return onstack_clock_set_process(clock, period_ns);
}

int onstack_process_clock_start(onstack_slot *slot) {
  onstack_process_clock *clock = slot->process_clock;
  uint64_t period_ns = slot->period_ns, others_ns = period_ns;
  if (!clock) return 0;
  process_clock_others(clock, slot, &others_ns);
  uint64_t now_ns;
  /* What the timers that were armed first have told already is accounted for. */
  const uint64_t told_ns = onstack_load_relaxed(&slot->counters.ticks) * slot->period_ns;
  slot->process_start_ns = onstack_clock_read_process(slot, &now_ns) ? (now_ns - told_ns) | 1u : 0;
  onstack_publish(&slot->meets, 1u);
  return process_clock_set(clock, others_ns < period_ns ? others_ns : period_ns);
}

static void process_clock_end(onstack_process_clock *clock) {
  onstack_dekker_store(&clock->generation, clock->generation + 1u);
  process_clock_wait(clock); /* one that has seen the generation before may be setting the timer */
  const int32_t timer = onstack_clock_settle_process(clock);
  if (timer >= 0) onstack_clock_end(timer);
  clock->signal = 0;
}

void onstack_process_clock_leave(onstack_slot *slot) {
  onstack_process_clock *clock = slot->process_clock;
  uint64_t period_ns = 0;
  if (!clock || clock->signal == 0) return;
  if (process_clock_others(clock, slot, &period_ns) == 0)
    process_clock_end(clock);
  else
    process_clock_set(clock, period_ns);
}

bool onstack_process_clock_owes(const onstack_slot *slot) {
  return slot->process_clock && onstack_clock_missing(slot->process_clock->record) > 0;
}

void onstack_process_clocks_after_fork(void) {
  for (uint32_t i = 0; i < ONSTACK_MAX_SESSIONS; i++) {
    onstack_process_clock *clock = &onstack_process_clocks[i];
    clock->signal = 0;
    if (!clock->record) continue;
    clock->record->timer = ONSTACK_THREAD_UNARMED; /* POSIX timers are not inherited (timer_create(2)) */
    clock->record->busy = 0;
  }
}
