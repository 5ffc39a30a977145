/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A session's thread gets a timer of its own: in start and scans, and in the handler of a process tick. */
#ifndef ONSTACK_SAMPLER_SOURCE_ARM_H
#define ONSTACK_SAMPLER_SOURCE_ARM_H

#include "sampler/session/slot.h"

#include <ucontext.h>

/* Timers of threads that all sessions of this copy hold, and how many they may (a quarter of RLIMIT_SIGPENDING). */
ONSTACK_INTERNAL_DATA uint32_t onstack_timers_held;
ONSTACK_INTERNAL_DATA uint32_t onstack_timers_allowed;
/* Some thread of some session has got no timer; else nobody has to look at the sessions' counters. Set for ever. */
ONSTACK_INTERNAL_DATA uint32_t onstack_timers_refused;

/* A timer on a kernel's clock for `record` (of the thread `tid`; NONE or ARMING): ARMED, or REFUSED. Signal-safe. */
ONSTACK_INTERNAL void onstack_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid, int32_t clock);

/* Deletes a timer that onstack_arm made, by the id that onstack_timer_take gave. Signal-safe. */
ONSTACK_INTERNAL void onstack_arm_remove(int32_t id);

/* A well-mixed number in (0, period]. Statistical, not secret. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_arm_random(const onstack_thread *record, uint32_t tid, uint32_t generation,
                                             uint64_t period_ns);

/* ---- waits for a processor ---- */

/*
 * The time for which threads have waited for a processor, as long as no sample tells of it: where a source measures that
 * (slot->runnable_ns), a thread's own next tick takes it, and else the looking thread (sampler/source/wall_account.c).
 */

/* Takes `ns` of a thread's (by its record's index) for a sample; false: there is not so much. Signal-safe. */
ONSTACK_INTERNAL bool onstack_runnable_take(onstack_slot *slot, uint64_t index, uint64_t ns);

/* Records that of the calling thread, if it comes to a period: it has waited at one place or another of those where it runs.
   As onstack_record_tick. */
ONSTACK_INTERNAL void onstack_runnable_record(onstack_slot *slot, onstack_thread *thread, ucontext_t *context);

#endif
