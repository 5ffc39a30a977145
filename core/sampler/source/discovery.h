/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds the threads of the process for a session that is to sample them all, and has each armed. The sources of time use it; a
 * source of its own kind, as the heap, does not.
 *
 * At the start every thread of /proc/self/task is armed. Later ones are found in three ways:
 *
 *   the process tick (process_tick.h), a timer on the process's CPU time, meets a running thread that has no timer. For the
 *   source cpu alone (onstack_discovery_by_process).
 *
 *   The consumer hands the process tick on. All processors look at their timers at about the same instant, and the first one
 *   gives the process tick to its own thread: where that one stays, and has a timer, threads that come and go on the others are
 *   never met (before Linux 6.4 nobody but the main thread). So the consumer looks for them while CPU time of the process is
 *   unaccounted for, and sends them the tick: in the handler it meets the thread as any process tick does. A signal, not a
 *   timer: threads of a millisecond end before the kernel's tick looks at timers.
 *
 *   Scans of /proc/self/task take the rest: all threads where there is no process tick, and else those that have used three
 *   periods of CPU time (DISCOVERY_SCAN_PERIODS).
 */
#ifndef ONSTACK_SAMPLER_SOURCE_DISCOVERY_H
#define ONSTACK_SAMPLER_SOURCE_DISCOVERY_H

#include "sampler/source/source.h"
#include "sampler/source/threads.h"

/* The session's new threads are found by the process tick, too. Before onstack_discovery_start, so that the threads cannot use
   up what the kernel allows. 0 or -errno. Under the control lock, as all that is here unless it says otherwise. */
ONSTACK_INTERNAL int onstack_discovery_by_process(onstack_slot *slot);

/* Installs the handler, and arms every thread of /proc/self/task but our own and those that the filter does not want: the slot
   is RUNNING. On failure it is stopped again. 0, ONSTACK_E_* or -errno. */
ONSTACK_INTERNAL int onstack_discovery_start(onstack_slot *slot, const onstack_settings *settings,
                                             const onstack_thread_timers *timers);

/* A source's `tend`: finds new threads, and tends the records of those that there are. `scan_share`: scans take one part in so
   many of a processor at most; 0: as is usual. */
ONSTACK_INTERNAL bool onstack_discovery_tend(onstack_slot *slot, const onstack_source_round *round, uint32_t scan_share);

/* A source's `stop`: the timers are gone, and the signal's action is what it was. */
ONSTACK_INTERNAL void onstack_discovery_stop(onstack_slot *slot);

/* The process ticks are no more. In the child of a fork; async-signal-safe. */
ONSTACK_INTERNAL void onstack_discovery_after_fork(void);

/* ---- the ticker (wall_signal.c): a thread of ours that sends the ticks where timers cannot be had ---- */

ONSTACK_INTERNAL_DATA const onstack_thread_timers onstack_ticker_timers;

/* As onstack_discovery_start, where the kernel gives no timers, for that reason (-errno). `name`: in statistics. `from_birth`:
   what a thread used before it was found counts. */
ONSTACK_INTERNAL int onstack_ticker_start(onstack_slot *slot, const onstack_settings *settings, const char *name,
                                          bool from_birth, int reason);

/* As onstack_discovery_stop, also of a session that has timers. */
ONSTACK_INTERNAL void onstack_ticker_stop(onstack_slot *slot);

/* Its name into the statistics, if the slot has it. Any thread. */
ONSTACK_INTERNAL void onstack_ticker_fill(const onstack_slot *slot, onstack_stats *stats);

/* Parts of the start, and the thread's work; returns ns until the next. */
ONSTACK_INTERNAL int onstack_ticker_prepare(onstack_slot *slot, const char *name, bool from_birth);
ONSTACK_INTERNAL uint64_t onstack_ticker_round(void *slot);

/* ---- parts ---- */

/* Whether process ticks meet any running thread: before Linux 6.4 the kernel gives them to the main thread. */
ONSTACK_INTERNAL bool onstack_discovery_meets_all(void);

#endif
