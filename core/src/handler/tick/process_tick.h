/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The timer on the process's CPU time that finds new threads: one for all CPU sessions of a signal, at the rate of the
 * fastest. Its signal goes to a running thread (since Linux 6.4). A thread that has no timer gets one then, in the handler,
 * with a first expiry uniform in (0, T], and each session a sample for its ticks that no sample accounts for.
 *
 * One for each session would be lost to the others. Timers of one clock expire together, the handler of the first signal
 * blocks the second, and the kernel hands that one to another thread (kernel/signal.c, retarget_shared_pending): one that
 * sleeps in poll, as a rule, where nobody is met.
 *
 * Control writes (control/tick/clock_cpu.c), under the control lock; the handler reads. `record` never changes once it is set.
 */
#ifndef ONSTACK_HANDLER_TICK_PROCESS_TICK_H
#define ONSTACK_HANDLER_TICK_PROCESS_TICK_H

#include "handler/tick/slot.h"

struct onstack_process_clock {
  onstack_thread *record; /* its address is the cookie; of its fields `busy` (handlers inside) and `timer` are in use */
  uint32_t generation;    /* counts its timers; the low bits are in the cookie */
  int32_t signal;         /* 0: no session uses it */
  uint64_t period_ns;
  uint32_t due; /* the timer is STOPPED: how many of its ticks have been due. Control only */
};

ONSTACK_INTERNAL_DATA onstack_process_clock onstack_process_clocks[ONSTACK_MAX_SESSIONS];

/* The CPU time of the process that samples of the session account for: all but that of our own threads, unless it samples
   them. False if a filter refuses. Signal-safe. */
ONSTACK_INTERNAL bool onstack_process_read(const onstack_slot *slot, uint64_t *ns);

/* A process tick met a thread that has a timer: notices when that timer belongs to a dead thread of the same id and
   replaces it. True if it did (the thread counts as new). Signal-safe. */
ONSTACK_INTERNAL bool onstack_process_revive(onstack_slot *slot, onstack_thread *record, uint32_t tid);

/* Its next tick comes `first_ns` of the process's CPU time from now. 0 or -errno. Signal-safe. */
ONSTACK_INTERNAL int onstack_process_set(onstack_process_clock *clock, uint64_t period_ns, uint64_t first_ns);

/* The process's clock has met a thread that has a timer of its own, `timer`: its next tick keeps away from that one's. Or it
   has `ended_call`: it was meant for another thread, whose own tick came with it. Inside the handler of that tick. */
ONSTACK_INTERNAL void onstack_process_keep_apart(onstack_process_clock *clock, const onstack_timer *timer, bool ended_call);

#endif
