/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The clock's stand-in where timers cannot be had (a seccomp filter, a kernel without them): a thread of ours looks at
 * the clocks of all threads and sends the ticks itself, as signals that look like a timer's. The handler knows no
 * difference: value, timer id and overruns are where it looks for them.
 *
 * A tick is sent when the one before has been handled; what a thread uses meanwhile becomes the next one's overruns. So
 * nothing is lost to a thread that blocks the signal, and nothing piles up. New threads are found by the consumer's scan;
 * what they used before that counts.
 */
#ifndef ONSTACK_CONTROL_TICK_TICKER_H
#define ONSTACK_CONTROL_TICK_TICKER_H

#include "handler/tick/slot.h"

typedef struct onstack_ticker_mark {
  uint32_t tid;    /* whose mark this is; 0: nobody's yet */
  int64_t sent_ns; /* the thread's clock up to which ticks have been sent; a phase below zero at first */
} onstack_ticker_mark;

typedef struct onstack_ticker {
  onstack_slot *slot;
  onstack_ticker_mark *marks; /* by record */
  bool started;               /* one round is over: threads that are new now began after the session did */
} onstack_ticker;

/* True if this process may send itself such signals. Any thread. */
ONSTACK_INTERNAL bool onstack_ticker_is_possible(void);

/* Returns 0 or -ENOMEM. Start only; release it when its thread is gone. */
ONSTACK_INTERNAL int onstack_ticker_prepare(onstack_ticker *ticker, onstack_slot *slot);
ONSTACK_INTERNAL void onstack_ticker_release(onstack_ticker *ticker);

/* One round; returns the ns until the next one. On the ticker's thread. */
ONSTACK_INTERNAL uint64_t onstack_ticker_work(void *ticker);

#endif
