/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The timer on the process's CPU time that finds new threads: one for all CPU sessions of a signal. Its signal goes to a
 * running thread (since Linux 6.4). A thread that has no timer gets one then, in the handler, with a first expiry uniform in
 * (0, T], and each session a sample for its ticks that no sample accounts for.
 *
 * It expires when a period of the process's CPU time has gone by for which no thread has ticked by its own timer: such a tick
 * puts it off by a period. So while all threads that work have timers it does not come. That matters, for it goes to the
 * process: when a thread's own tick comes at the same tick of the kernel, the handler of that one blocks the signal, and the
 * kernel hands this one to another thread (kernel/signal.c, retarget_shared_pending): one that sleeps in poll, as a rule, gets
 * EINTR, and nobody is met. For the same reason there is one for all sessions. It counts the ticks of one of them, the fastest.
 * Where a session has threads that got no timer, or a filter refuses to read the clock, it ticks each period.
 *
 * Control writes (discovery.c), under the control lock; the handler reads. `record` never changes once it is set.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_PROCESS_TICK_H
#define ONSTACK_SAMPLER_SOURCE_PROCESS_TICK_H

#include "sampler/session/slot.h"

#include <signal.h>

/* si_timerid of a tick that control sends to a thread (sampler/source/discovery.h): none of the kernel's. */
#define ONSTACK_PROCESS_HANDED_ON 0x7ffffffe

/* The CPU time of the process that samples of the session account for: all but that of our own threads, unless it samples
   them. False if a filter refuses. Signal-safe. */
ONSTACK_INTERNAL bool onstack_process_read(const onstack_slot *slot, uint64_t *ns);

/* What of it has been used since the session's start. False: nobody can tell. Signal-safe. */
ONSTACK_INTERNAL bool onstack_process_used(const onstack_slot *slot, uint64_t *ns);

/* The ticks of it that nothing in the session's counters accounts for; UINT64_MAX: nobody can tell. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_process_unaccounted(const onstack_slot *slot);

/* A process tick met a thread that has a timer: notices when that timer belongs to a dead thread of the same id and
   replaces it. True if it did (the thread counts as new). Signal-safe. */
ONSTACK_INTERNAL bool onstack_process_revive(onstack_slot *slot, onstack_thread *record, uint32_t tid);

/* It ticks for `leader`, first when two steps have no tick of a thread. Nobody else sets it meanwhile: there is no leader, and
   no handler inside. 0 or -errno. Start and stop. */
ONSTACK_INTERNAL int onstack_process_begin(onstack_process_clock *clock, onstack_slot *leader);

/* How often a timer has expired. */
static inline ONSTACK_HANDLER uint64_t onstack_ticks_of(const siginfo_t *info) {
  return 1 + (uint64_t)(info->si_overrun > 0 ? info->si_overrun : 0);
}

/* Control has sent it, not the clock: the clock neither counts it nor goes by it. */
static inline ONSTACK_HANDLER bool onstack_process_is_handed_on(const siginfo_t *info) {
  return info->si_timerid == ONSTACK_PROCESS_HANDED_ON;
}

/* The CPU time that a tick stands for at most: what the process has used since its tick before, of one kernel tick at most; as
   many periods as it has expired at least. Of one that was handed on what control says. Each tick asks once. Inside its
   handler. */
ONSTACK_INTERNAL uint64_t onstack_process_brings(onstack_process_clock *clock, const siginfo_t *info);

/* It has ticked, and has met a thread without a timer or not. Inside the handler of that tick. */
ONSTACK_INTERNAL void onstack_process_met(onstack_process_clock *clock, const siginfo_t *info, bool found);

/* What onstack_process_ticked calls. */
ONSTACK_INTERNAL void onstack_process_put_off(onstack_process_clock *clock, const onstack_slot *slot);

/* A thread's own timer has ticked: `ticks` are now in the session's counters. Inside the handler of that tick. */
static inline __attribute__((always_inline)) ONSTACK_HANDLER void onstack_process_ticked(const onstack_slot *slot,
                                                                                         uint64_t ticks) {
  onstack_process_clock *clock = slot->process_clock;
  if (clock && ticks >= onstack_load_relaxed(&clock->look_at) && onstack_load_relaxed(&clock->leader) == slot)
    onstack_process_put_off(clock, slot);
}

#endif
