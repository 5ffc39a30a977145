/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The time for which threads have waited for a processor, as long as no sample tells of it: where a clock measures that
 * (slot->runnable_ns), a thread's own next tick takes it, and else the looking thread (sampler/source/wall_account.c).
 */
#ifndef ONSTACK_SAMPLER_SOURCE_RUNNABLE_H
#define ONSTACK_SAMPLER_SOURCE_RUNNABLE_H

#include "sampler/session/slot.h"

#include <ucontext.h>

/* Takes `ns` of a thread's (by its record's index) for a sample; false: there is not so much. Signal-safe. */
ONSTACK_INTERNAL bool onstack_runnable_take(onstack_slot *slot, uint64_t index, uint64_t ns);

/* Records that of the calling thread, if it comes to a period: it has waited at one place or another of those where it runs.
   As onstack_record_tick. */
ONSTACK_INTERNAL void onstack_runnable_record(onstack_slot *slot, onstack_thread *thread, ucontext_t *context);

#endif
