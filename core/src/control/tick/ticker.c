/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "control/tick/ticker.h"

#include "base/sys.h"
#include "handler/tick/clock.h"
#include "onstack/onstack.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define TICKER_SHORTEST_NS 1000000u /* between two rounds; above 1,000 Hz the weight grows instead */
#define TICKER_LONGEST_NS 50000000u

static long ticker_queue(uint32_t tid, int signal, siginfo_t *info) {
  return onstack_sys_call4(SYS_rt_tgsigqueueinfo, onstack_sys_getpid(), (long)tid, signal, (long)info);
}

bool onstack_ticker_is_possible(void) {
  siginfo_t info;
  memset(&info, 0, sizeof(info));
  info.si_code = SI_TIMER;
  return ticker_queue((uint32_t)onstack_sys_gettid(), 0, &info) == 0;
}

int onstack_ticker_prepare(onstack_ticker *ticker, onstack_slot *slot) {
  *ticker = (onstack_ticker){.slot = slot, .marks = calloc(ONSTACK_THREAD_RECORDS, sizeof(*ticker->marks))};
  return ticker->marks ? 0 : -ENOMEM;
}

void onstack_ticker_release(onstack_ticker *ticker) {
  free(ticker->marks);
  ticker->marks = NULL;
}

static void ticker_send(onstack_slot *slot, onstack_thread *record, onstack_ticker_mark *mark, uint64_t ticks) {
  siginfo_t info;
  memset(&info, 0, sizeof(info));
  info.si_code = SI_TIMER;
  info.si_timerid = ONSTACK_THREAD_BY_TICKER;
  info.si_overrun = (int)(ticks < INT32_MAX ? ticks - 1 : INT32_MAX);
  info.si_value.sival_ptr = (void *)(uintptr_t)onstack_thread_cookie(record, slot->generation);
  onstack_store_relaxed(&record->unanswered, (uint8_t)1); /* before the handler can take it back */
  if (ticker_queue(mark->tid, slot->signal, &info) == 0)
    mark->sent_ns += (int64_t)(ticks * slot->period_ns);
  else
    onstack_store_relaxed(&record->unanswered,
                          (uint8_t)0); /* it has ended, or the queue is full: the next round tries again */
}

static void ticker_visit(onstack_ticker *ticker, uint32_t index) {
  onstack_slot *slot = ticker->slot;
  onstack_thread *record = &slot->threads.records[index];
  onstack_ticker_mark *mark = &ticker->marks[index];
  uint32_t tid = onstack_observe(&slot->threads.tids[index]);
  if (tid == 0 || onstack_observe(&record->timer) != ONSTACK_THREAD_BY_TICKER) return;
  uint64_t clock_ns;
  if (!onstack_clock_read(slot, tid, &clock_ns)) return;
  const int64_t now = (int64_t)clock_ns;
  if (mark->tid != tid || now < mark->sent_ns) {
    /* The phase is uniform in [0, T), as a timer's first expiry. Real time before the scan is not the thread's. */
    bool from_birth = ticker->started && slot->clock != ONSTACK_CLOCK_WALL;
    *mark = (onstack_ticker_mark){tid, (from_birth ? 0 : now) - (int64_t)onstack_clock_random(slot, record, tid) + 1};
  }
  if (now - mark->sent_ns < (int64_t)slot->period_ns || onstack_load_relaxed(&record->unanswered) != 0) return;
  ticker_send(slot, record, mark, (uint64_t)(now - mark->sent_ns) / slot->period_ns);
}

uint64_t onstack_ticker_work(void *data) {
  onstack_ticker *ticker = data;
  const onstack_slot *slot = ticker->slot;
  if (onstack_dekker_load(&slot->state) == ONSTACK_SLOT_RUNNING) {
    for (uint32_t i = 0; i < ONSTACK_THREAD_RECORDS; i++) ticker_visit(ticker, i);
    ticker->started = true;
  }
  if (slot->period_ns < TICKER_SHORTEST_NS) return TICKER_SHORTEST_NS;
  return slot->period_ns < TICKER_LONGEST_NS ? slot->period_ns : TICKER_LONGEST_NS;
}
