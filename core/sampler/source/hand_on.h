/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that no process tick meets. All processors look at their timers at about the same instant, and the first one gives
 * the process tick to its own thread: where that one stays, and has a timer, threads that come and go on the others are never
 * met (before Linux 6.4 nobody but the main thread: clock_cpu.c). So the consumer looks for them while CPU time of
 * the process is unaccounted for, and sends them the tick: in the handler it meets the thread as any process tick does
 * (sampler/source/process_tick.h).
 *
 * A signal, not a timer: threads of a millisecond end before the kernel's tick looks at timers.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_HAND_ON_H
#define ONSTACK_SAMPLER_SOURCE_HAND_ON_H

#include "sampler/session/slot.h"

/* Nothing has been sent for the slot. Before it runs. */
ONSTACK_INTERNAL void onstack_hand_on_begin(onstack_slot *slot);

/* Looks, if it is time to. The consumer of the slot only. */
ONSTACK_INTERNAL void onstack_hand_on(onstack_slot *slot);

/* Whether a tick is on its way to that thread, which arms itself then: no scan is to forestall it. The consumer only. */
ONSTACK_INTERNAL bool onstack_hand_on_is_sent(const onstack_slot *slot, uint32_t tid);

/* Waits until nothing is being sent, and nothing will be. After `state` has left RUNNING. */
ONSTACK_INTERNAL void onstack_hand_on_wait_sent(const onstack_slot *slot);

/* What was sent has been taken, or its thread has ended; 0.2 s at most, for a thread that blocks the signal by now, or has no
   processor. Before another action comes back: an owner would take our tick for its own, and by SIG_DFL a thread that a
   debugger stopped on its way to our handler would end the process. */
ONSTACK_INTERNAL void onstack_hand_on_wait_taken(const onstack_slot *slot);

#endif
