/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sessions come to the process clock of their signal and leave it (handler/tick/process_record.h). Under the control lock. */
#ifndef ONSTACK_CONTROL_TICK_PROCESS_CLOCK_H
#define ONSTACK_CONTROL_TICK_PROCESS_CLOCK_H

#include "handler/tick/slot.h"

/* Gives the slot a process clock, which does not tick for it yet: before any thread is armed, so that the threads cannot use
   up what the kernel allows. A session on real time needs none, but learns as well whether timers can be had. 0 or -errno,
   and then nothing is left. */
ONSTACK_INTERNAL int onstack_process_clock_join(onstack_slot *slot);

/* From here on it ticks for the slot, as often as the fastest of its sessions wants. After the threads are armed, so that no
   handler claims a record meanwhile. 0 or -errno. */
ONSTACK_INTERNAL int onstack_process_clock_start(onstack_slot *slot);

/* The slot is not running any more. The last one takes the timer away, and has waited for its handlers. */
ONSTACK_INTERNAL void onstack_process_clock_leave(onstack_slot *slot);

/* A tick of the clock that the slot has left may still be on its way to any thread. */
ONSTACK_INTERNAL bool onstack_process_clock_owes(const onstack_slot *slot);

/* In the child of a fork, which has no timers. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_process_clocks_after_fork(void);

#endif
