/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/hand_on.h"

#include "platform/clock_ns.h"
#include "platform/sys.h"
#include "sampler/source/clock.h"
#include "sampler/threads/task.h"
#include "sampler/signal/own_threads.h"
#include "sampler/source/process_tick.h"

#include <time.h>

#define HAND_ON_PAUSE_NS 10000000u /* between two looks, or so many times what a look takes */
#define HAND_ON_SHARE 200u
#define HAND_ON_LATE_SHARE 1000u   /* one that finds nothing missing, as of many threads that work it mostly does */
#define HAND_ON_VAIN_NS 320000000u /* the longest pause after looks that found nobody */
#define HAND_ON_BRINGS_NS 40000000u
#define HAND_ON_WAIT_NS 200000000u

void onstack_hand_on_begin(onstack_slot *slot) {
  slot->hand_on = (onstack_hand_on_state){.vain_pause_ns = HAND_ON_PAUSE_NS};
}

/* It is taken for a process tick by its cookie, and told apart by the id of its timer. Where the kernel has no room for what a
   signal of this number brings, it sends the bare signal, which were the host's (kernel/signal.c, __send_signal_locked). */
static bool hand_on_send(const onstack_slot *slot, uint32_t tid) {
  const onstack_process_clock *clock = slot->process_clock;
  if (onstack_timer_probe(CLOCK_PROCESS_CPUTIME_ID, slot->signal, 0) < 0) return false;
  const uint64_t cookie = onstack_thread_cookie(clock->record, onstack_dekker_load(&clock->generation));
  return onstack_task_send_tick(tid, slot->signal, ONSTACK_PROCESS_HANDED_ON, 1, cookie) == 0;
}

static bool hand_on_has(const onstack_hand_on_state *state, uint32_t tid) {
  for (uint32_t i = 0; i < state->count; i++)
    if (state->tids[i] == tid) return true;
  return false;
}

/*
 * One that has a record has a timer, or is not to have one. One that sleeps would have its call ended by the signal; one that
 * blocks the signal would keep it, beyond the session's end perhaps. One that has had a tick and has no record had no room for
 * it, or another owner's handler took it: that is left to a scan.
 */
static void hand_on_look_at(void *data, uint32_t tid) {
  onstack_slot *slot = data;
  onstack_hand_on_state *state = &slot->hand_on;
  if (state->count == ONSTACK_HAND_ON_MOST || hand_on_has(state, tid)) return;
  if (!slot->own_threads && onstack_own_is((int32_t)tid)) return;
  if (onstack_thread_find(&slot->threads, tid)) return;
  if (onstack_task_cpu_us(tid) <= 1 || !onstack_task_runs_open(tid, slot->signal)) return;
  if (!hand_on_send(slot, tid)) return;
  state->tids[state->count++] = tid;
  state->sent++;
}

/* Who has a record by now, or has ended, needs no attention. */
static void hand_on_forget(const onstack_slot *slot, onstack_hand_on_state *state) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < state->count; i++)
    if (!onstack_thread_find(&slot->threads, state->tids[i]) && !onstack_task_is_gone(state->tids[i]))
      state->tids[kept++] = state->tids[i];
  state->count = kept;
}

/* Ticks of threads are late by what the kernel's tick and the wait for a processor take, and come: what is late has its thread.
   Of what is missing beside that some may never be found, as in threads that have ended. It does not grow then. */
static bool hand_on_is_due(const onstack_hand_on_state *state, uint64_t now_ns, uint64_t unaccounted) {
  if (unaccounted == 0 || unaccounted == UINT64_MAX || now_ns < state->next_ns) return false;
  return now_ns >= state->vain_until_ns || unaccounted > state->vain_ticks;
}

/* Beyond its own age a thread is to have no more than what is missing. */
static void hand_on_look(onstack_slot *slot, onstack_hand_on_state *state, uint64_t missing) {
  const uint64_t missing_ns = missing * slot->period_ns;
  onstack_store_relaxed(&slot->process_clock->handed_ns, missing_ns < HAND_ON_BRINGS_NS ? missing_ns : HAND_ON_BRINGS_NS);
  hand_on_forget(slot, state);
  if (!state->looked) state->foreign = onstack_task_list_is_foreign();
  state->looked = true;
  state->sent = 0;
  if (!state->foreign) onstack_task_list_each(hand_on_look_at, slot);
}

/* In vain: not again before more is missing, or for longer each time. */
static void hand_on_note(onstack_hand_on_state *state, uint64_t now_ns, uint64_t unaccounted) {
  if (state->sent > 0) {
    state->vain_pause_ns = HAND_ON_PAUSE_NS;
    state->vain_ticks = 0;
    return;
  }
  state->vain_until_ns = now_ns + state->vain_pause_ns;
  if (state->vain_pause_ns < HAND_ON_VAIN_NS) state->vain_pause_ns *= 2;
  state->vain_ticks = unaccounted;
}

/* How many ticks of armed threads are due and have not come. */
static uint64_t hand_on_late(const onstack_slot *slot) {
  uint64_t late = 0, now_ns;
  for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) {
    const uint32_t tid = onstack_observe(&slot->threads.tids[i]);
    const onstack_timer *timer = &slot->threads.records[i].timer;
    if (tid == 0 || onstack_timer_state_of(timer) != ONSTACK_TIMER_ARMED || !slot->clock->read(tid, &now_ns)) continue;
    const int32_t missing =
        (int32_t)(onstack_timer_due(timer, slot->period_ns, now_ns) - onstack_load_relaxed(&timer->ticks));
    if (missing > 0) late += (uint64_t)missing;
  }
  return late;
}

void onstack_hand_on(onstack_slot *slot) {
  onstack_hand_on_state *state = &slot->hand_on;
  const uint64_t now_ns = onstack_monotonic_ns(), unaccounted = onstack_process_unaccounted(slot);
  if (!hand_on_is_due(state, now_ns, unaccounted)) return;
  state->next_ns = now_ns + HAND_ON_PAUSE_NS;
  if (onstack_task_list_number() == onstack_own_count() + 1)
    return; /* the host's one thread: the process tick meets no other */
  const uint64_t before_ns = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t late = hand_on_late(slot);
  if (unaccounted > late) {
    onstack_dekker_store(&slot->handing_on, 1u);
    if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) hand_on_look(slot, state, unaccounted - late);
    onstack_dekker_store(&slot->handing_on, 0u);
    hand_on_note(state, now_ns, unaccounted);
  }
  const uint64_t took_ns = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
  const uint64_t pause_ns = took_ns * (unaccounted > late ? HAND_ON_SHARE : HAND_ON_LATE_SHARE);
  if (pause_ns > HAND_ON_PAUSE_NS) state->next_ns = now_ns + pause_ns;
}

bool onstack_hand_on_is_sent(const onstack_slot *slot, uint32_t tid) {
  return hand_on_has(&slot->hand_on, tid) && onstack_task_awaits(tid, slot->signal);
}

void onstack_hand_on_wait_sent(const onstack_slot *slot) {
  for (uint32_t round = 0; onstack_dekker_load(&slot->handing_on) != 0; round++) onstack_moment(round);
}

void onstack_hand_on_wait_taken(const onstack_slot *slot) {
  const onstack_hand_on_state *state = &slot->hand_on;
  const uint64_t until_ns = onstack_monotonic_ns() + HAND_ON_WAIT_NS;
  for (uint32_t i = 0; i < state->count; i++)
    while (onstack_task_awaits(state->tids[i], slot->signal) && onstack_monotonic_ns() < until_ns) onstack_sys_sleep(50000);
}
