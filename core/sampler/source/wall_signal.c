/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Real time, by a timer for each thread: for threads that sleep as well, which only a list of the threads can find. And the
 * ticker, which stands in for timers here and for CPU time.
 */
#include "platform/sys.h"
#include "sampler/source/arm.h"
#include "sampler/source/discovery.h"
#include "sampler/threads/task.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define WALL_SIGNAL_DOUBT_NS 500000000u /* half of the time between two looks */

/* ---- the ticker ---- */

/*
 * Where timers cannot be had (a seccomp filter, a kernel without them): a thread of ours looks at the clocks of all threads
 * and sends the ticks itself, as signals that look like a timer's. The handler knows no difference: value, timer id and
 * overruns are where it looks for them.
 *
 * A tick is sent when the one before has been handled; what a thread uses meanwhile becomes the next one's overruns. So
 * nothing is lost to a thread that blocks the signal, and nothing piles up. New threads are found by the consumer's scan;
 * what they used before that counts.
 */
#define TICKER_SHORTEST_NS 1000000u /* between two rounds; above 1,000 Hz the weight grows instead */
#define TICKER_LONGEST_NS 50000000u
#define TICKER_ID 0x7fffffff /* si_timerid: none of the kernel's */

typedef struct onstack_ticker_mark {
  uint32_t tid;      /* whose mark this is; 0: nobody's yet. Written by who arms, and in the ticker's rounds */
  uint32_t ticks;    /* that had been handled when the last one was sent */
  bool is_under_way; /* unless more have been handled since */
  int64_t sent_ns;   /* the thread's clock up to which ticks have been sent; a phase below zero at first */
} onstack_ticker_mark;

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
  if (mark->is_under_way) mark->sent_ns += (int64_t)(ticks * slot->period);
}

/* The phase is uniform in [0, T), as a timer's first expiry. */
static void ticker_begin(const onstack_slot *slot, const onstack_thread *record, onstack_ticker_mark *mark, uint32_t tid,
                         int64_t from) {
  const uint64_t phase = onstack_arm_random(record, tid, slot->generation, slot->period);
  onstack_store_relaxed(&mark->tid, tid);
  mark->is_under_way = false;
  mark->sent_ns = from - (int64_t)phase + 1;
}

static void ticker_visit(onstack_slot *slot, const onstack_ticker *state, uint32_t index) {
  onstack_thread *record = &slot->threads.records[index];
  onstack_ticker_mark *mark = &state->marks[index];
  uint32_t tid = onstack_observe(&slot->threads.tids[index]);
  uint64_t clock_ns;
  if (tid == 0 || onstack_timer_state_of(&record->timer) != ONSTACK_TIMER_ARMED) return;
  if (!onstack_timer_read_clock(state->from_birth ? onstack_timer_cpu_clock(tid) : CLOCK_MONOTONIC, &clock_ns)) return;
  const int64_t now = (int64_t)clock_ns;
  if (onstack_load_relaxed(&mark->tid) != tid || now < mark->sent_ns)
    ticker_begin(slot, record, mark, tid, state->from_birth && state->started ? 0 : now);
  if (now - mark->sent_ns < (int64_t)slot->period) return;
  if (mark->is_under_way && onstack_load_relaxed(&record->timer.ticks) == mark->ticks) return;
  ticker_send(slot, record, mark, tid, (uint64_t)(now - mark->sent_ns) / slot->period);
}

uint64_t onstack_ticker_round(void *data) {
  onstack_slot *slot = data;
  onstack_ticker *state = &slot->ticker;
  if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) {
    for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) ticker_visit(slot, state, i);
    state->started = true;
  }
  if (slot->period < TICKER_SHORTEST_NS) return TICKER_SHORTEST_NS;
  return slot->period < TICKER_LONGEST_NS ? slot->period : TICKER_LONGEST_NS;
}

/* Not asked: nothing of a tick that was not sent is accounted for when the session stops. */
static bool ticker_read(uint32_t tid, uint64_t *ns) {
  (void)tid;
  (void)ns;
  return false;
}

ONSTACK_INTERNAL_DEFINE const onstack_thread_timers onstack_ticker_timers = {
    .arm = ticker_arm, .remove = ticker_remove, .read = ticker_read};

int onstack_ticker_prepare(onstack_slot *slot, const char *name, bool from_birth) {
  onstack_ticker *state = &slot->ticker;
  free(state->marks); /* in the child of a fork, the parent's */
  *state = (onstack_ticker){
      .name = name, .from_birth = from_birth, .marks = calloc(ONSTACK_THREAD_RECORDS, sizeof(onstack_ticker_mark))};
  return state->marks ? 0 : -ENOMEM;
}

static void ticker_forget(onstack_slot *slot) {
  free(slot->ticker.marks);
  slot->ticker.marks = NULL;
}

int onstack_ticker_start(onstack_slot *slot, const onstack_settings *settings, const char *name, bool from_birth,
                         int reason) {
  /* RLIMIT_SIGPENDING: a signal of ours would arrive without its value. */
  if (reason == -EAGAIN || !settings->threads) return ONSTACK_E_CLOCK;
  if (onstack_task_send_tick((uint32_t)onstack_sys_gettid(), 0, TICKER_ID, 1, 0) < 0) return ONSTACK_E_CLOCK;
  int result = onstack_ticker_prepare(slot, name, from_birth);
  if (result < 0) return result;
  result = onstack_discovery_start(slot, settings, &onstack_ticker_timers);
  if (result == 0) result = onstack_worker_start_for(&slot->worker, "onstack-ticker", onstack_ticker_round, slot);
  if (result < 0 && onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) onstack_discovery_stop(slot);
  if (result < 0) ticker_forget(slot);
  return result;
}

void onstack_ticker_stop(onstack_slot *slot) {
  onstack_worker_stop(&slot->worker);
  onstack_discovery_stop(slot);
  ticker_forget(slot);
}

void onstack_ticker_fill(const onstack_slot *slot, onstack_stats *stats) {
  if (slot->ticker.name) stats->clock = slot->ticker.name;
}

/* ---- the source ---- */

static void wall_signal_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid) {
  onstack_arm(slot, record, tid, CLOCK_MONOTONIC);
}

/* The clock goes on for a thread that has ended; its ticks do not. */
static bool wall_signal_read(uint32_t tid, uint64_t *ns) {
  return !onstack_task_is_gone(tid) && onstack_timer_read_clock(CLOCK_MONOTONIC, ns);
}

/* A thread that has had no tick, though it takes the signal, is a new one: it came under the id of one that ended, whose
   timer goes on for nobody. */
static bool wall_signal_doubts(const onstack_slot *slot, uint32_t tid) {
  return slot->period <= WALL_SIGNAL_DOUBT_NS && onstack_task_blocks(tid, slot->signal) == 0;
}

static const onstack_thread_timers wall_signal_timers = {
    .arm = wall_signal_arm, .remove = onstack_arm_remove, .read = wall_signal_read, .doubts = wall_signal_doubts};

static int wall_signal_check(const onstack_options *options, onstack_settings *settings, const char **fault) {
  return onstack_source_check_rate(options, ONSTACK_DEFAULT_FREQUENCY, settings, fault);
}

static int wall_signal_start(onstack_slot *slot, const onstack_settings *settings) {
  const int result = onstack_timer_probe(CLOCK_MONOTONIC, slot->signal, (uint32_t)onstack_sys_gettid());
  if (result == 0) return onstack_discovery_start(slot, settings, &wall_signal_timers);
  /* Real time before the scan is not the thread's. */
  return onstack_ticker_start(slot, settings, "wall-signal-ticker", false, result);
}

static bool wall_signal_tend(onstack_slot *slot, const onstack_source_round *round) {
  return onstack_discovery_tend(slot, round, 0);
}

ONSTACK_INTERNAL_DEFINE const onstack_source onstack_source_wall_signal = {
    .name = "wall-signal",
    .number = ONSTACK_CLOCK_WALL_SIGNAL,
    .kind = ONSTACK_KIND_WALL,
    .unit = ONSTACK_UNIT_NANOSECONDS,
    .check = wall_signal_check,
    .start = wall_signal_start,
    .tend = wall_signal_tend,
    .stop = onstack_ticker_stop,
    .fill = onstack_ticker_fill,
};
