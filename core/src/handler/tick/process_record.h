/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The timer on the process's CPU time that finds new threads: one for all CPU sessions of a signal, at the rate of the
 * fastest. Its signal goes to a running thread; each session takes from the meeting what it is owed (entry.c).
 *
 * One for each session would be lost to the others. Timers of one clock expire together, the handler of the first signal
 * blocks the second, and the kernel hands that one to another thread (kernel/signal.c, retarget_shared_pending): one that
 * sleeps in poll, as a rule, where nobody is met.
 *
 * Control writes (control/tick/process_clock.c), under the control lock; the handler reads. `record` never changes once it is set.
 */
#ifndef ONSTACK_HANDLER_TICK_PROCESS_RECORD_H
#define ONSTACK_HANDLER_TICK_PROCESS_RECORD_H

#include "handler/tick/thread_table.h"
#include "onstack/onstack.h"

typedef struct onstack_process_clock {
  onstack_thread
      *record; /* its address is the cookie; `busy`: handlers inside; `timer`, `ticks` and `first_us` as a thread's */
  uint32_t generation; /* counts its timers; the low bits are in the cookie */
  int32_t signal;      /* 0: no session uses it */
  uint64_t period_ns;
} onstack_process_clock;

ONSTACK_INTERNAL_DATA onstack_process_clock onstack_process_clocks[ONSTACK_MAX_SESSIONS];

#endif
