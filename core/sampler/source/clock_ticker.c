/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where timers cannot be had (a seccomp filter, a kernel without them): a thread of ours looks at the clocks of all threads
 * and sends the ticks itself, as signals that look like a timer's. The handler knows no difference: value, timer id and
 * overruns are where it looks for them.
 *
 * A tick is sent when the one before has been handled; what a thread uses meanwhile becomes the next one's overruns. So
 * nothing is lost to a thread that blocks the signal, and nothing piles up. New threads are found by the consumer's scan;
 * what they used before that counts.
 */
#include "sampler/source/clock.h"
#include "sampler/threads/task.h"

#include "platform/sys.h"
#include "sampler/source/arm.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define TICKER_SHORTEST_NS 1000000u /* between two rounds; above 1,000 Hz the weight grows instead */
#define TICKER_LONGEST_NS 50000000u
#define TICKER_ID 0x7fffffff /* si_timerid: none of the kernel's */

typedef struct onstack_ticker_mark {
  uint32_t tid;      /* whose mark this is; 0: nobody's yet. Written by who arms, and in the ticker's rounds */
  uint32_t ticks;    /* that had been handled when the last one was sent */
  bool is_under_way; /* unless more have been handled since */
  int64_t sent_ns;   /* the thread's clock up to which ticks have been sent; a phase below zero at first */
} onstack_ticker_mark;

static int ticker_probe(int32_t signal) {
  (void)signal;
  return onstack_task_send_tick((uint32_t)onstack_sys_gettid(), 0, TICKER_ID, 1, 0);
}

static int ticker_join(onstack_slot *slot, const onstack_settings *settings) {
  (void)settings;
  onstack_ticker *state = &slot->ticker;
  free(state->marks); /* in the child of a fork, the parent's */
  *state = (onstack_ticker){.marks = calloc(ONSTACK_THREAD_RECORDS, sizeof(onstack_ticker_mark))};
  return state->marks ? 0 : -ENOMEM;
}

static void ticker_leave(onstack_slot *slot) {
  onstack_ticker *state = &slot->ticker;
  free(state->marks);
  state->marks = NULL;
}

static void ticker_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  (void)tid;
  onstack_timer_move(&record->timer, ONSTACK_TIMER_NONE, ONSTACK_TIMER_ARMING);
  onstack_timer_reset(&record->timer);
  onstack_store_relaxed(&record->timer.id, TICKER_ID);
  onstack_store_relaxed(&slot->ticker.marks[record - slot->threads.records].tid, 0u);
  onstack_timer_move(&record->timer, ONSTACK_TIMER_ARMING, ONSTACK_TIMER_ARMED);
  onstack_add_relaxed(&slot->counters.threads_seen, (uint64_t)1);
}

static void ticker_remove(int32_t id) { (void)id; }

static void ticker_send(onstack_slot *slot, onstack_thread *record, onstack_ticker_mark *mark, uint32_t tid,
                        uint64_t ticks) {
  const uint64_t cookie = onstack_thread_cookie(record, slot->generation);
  mark->ticks = onstack_load_relaxed(&record->timer.ticks); /* before the handler can count it */
  /* Otherwise it has ended, or the queue is full: the next round tries again. */
  mark->is_under_way = onstack_task_send_tick(tid, slot->signal, TICKER_ID, ticks, cookie) == 0;
  if (mark->is_under_way) mark->sent_ns += (int64_t)(ticks * slot->period_ns);
}

/* The phase is uniform in [0, T), as a timer's first expiry. */
static void ticker_begin(const onstack_slot *slot, const onstack_thread *record, onstack_ticker_mark *mark, uint32_t tid,
                         int64_t from) {
  const uint64_t phase = onstack_arm_random(record, tid, slot->generation, slot->period_ns);
  onstack_store_relaxed(&mark->tid, tid);
  mark->is_under_way = false;
  mark->sent_ns = from - (int64_t)phase + 1;
}

/* `birth`: the clock counts from each thread's own birth on. */
static void ticker_visit(onstack_slot *slot, const onstack_ticker *state, uint32_t index, bool birth) {
  onstack_thread *record = &slot->threads.records[index];
  onstack_ticker_mark *mark = &state->marks[index];
  uint32_t tid = onstack_observe(&slot->threads.tids[index]);
  uint64_t clock_ns;
  if (tid == 0 || onstack_timer_state_of(&record->timer) != ONSTACK_TIMER_ARMED) return;
  if (!onstack_timer_read_clock(birth ? onstack_timer_cpu_clock(tid) : CLOCK_MONOTONIC, &clock_ns)) return;
  const int64_t now = (int64_t)clock_ns;
  if (onstack_load_relaxed(&mark->tid) != tid || now < mark->sent_ns)
    ticker_begin(slot, record, mark, tid, birth && state->started ? 0 : now);
  if (now - mark->sent_ns < (int64_t)slot->period_ns) return;
  if (mark->is_under_way && onstack_load_relaxed(&record->timer.ticks) == mark->ticks) return;
  ticker_send(slot, record, mark, tid, (uint64_t)(now - mark->sent_ns) / slot->period_ns);
}

static uint64_t ticker_round(onstack_slot *slot, bool birth) {
  onstack_ticker *state = &slot->ticker;
  if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) {
    for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) ticker_visit(slot, state, i, birth);
    state->started = true;
  }
  if (slot->period_ns < TICKER_SHORTEST_NS) return TICKER_SHORTEST_NS;
  return slot->period_ns < TICKER_LONGEST_NS ? slot->period_ns : TICKER_LONGEST_NS;
}

static uint64_t ticker_round_cpu(void *slot) { return ticker_round(slot, true); }

/* Real time before the scan is not the thread's. */
static uint64_t ticker_round_wall(void *slot) { return ticker_round(slot, false); }

/* Not asked: nothing of a tick that was not sent is accounted for when the session stops. */
static bool ticker_read(uint32_t tid, uint64_t *ns) {
  (void)tid;
  (void)ns;
  return false;
}

ONSTACK_INTERNAL_DEFINE const onstack_clock_ops onstack_clock_cpu_ticker = {
    .name = "cpu-ticker",
    .number = ONSTACK_CLOCK_CPU,
    .kind = ONSTACK_KIND_CPU,
    .accept = onstack_clock_accept_rate,
    .probe = ticker_probe,
    .scan_age = onstack_clock_scan_all,
    .join = ticker_join,
    .start = onstack_clock_start_listed,
    .leave = ticker_leave,
    .arm = ticker_arm,
    .remove = ticker_remove,
    .read = ticker_read,
    .work = ticker_round_cpu,
    .thread_name = "onstack-ticker",
};

ONSTACK_INTERNAL_DEFINE const onstack_clock_ops onstack_clock_wall_signal_ticker = {
    .name = "wall-signal-ticker",
    .number = ONSTACK_CLOCK_WALL_SIGNAL,
    .kind = ONSTACK_KIND_WALL,
    .filters = true,
    .accept = onstack_clock_accept_rate,
    .probe = ticker_probe,
    .scan_age = onstack_clock_scan_all,
    .join = ticker_join,
    .start = onstack_clock_start_listed,
    .leave = ticker_leave,
    .arm = ticker_arm,
    .remove = ticker_remove,
    .read = ticker_read,
    .work = ticker_round_wall,
    .thread_name = "onstack-ticker",
};
