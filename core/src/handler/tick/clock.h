/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who ticks: a POSIX timer for each thread, made by raw system calls so that any thread of the process can be given one
 * without its cooperation, from start (all that exist) and later.
 *
 * Clock `cpu`: on the CPU time of the thread. New threads are found by a timer on the process's CPU time (process_clock.h):
 * its signal goes to a running thread (since Linux 6.4). A thread without a timer gets one then, in the handler, whose first
 * expiry is uniform in (0, T], and a sample for what is owed until now (entry.c, entry_unaccounted). A scan takes those that no tick
 * has met for long (consumer.c says why).
 *
 * Clock `wall`: on real time, for threads that sleep as well, which only a scan of /proc/self/task can find; there is no
 * process-wide timer.
 */
#ifndef ONSTACK_HANDLER_TICK_CLOCK_H
#define ONSTACK_HANDLER_TICK_CLOCK_H

#include "handler/tick/slot.h"

/* The CPU clock of a thread, for clock_gettime and timer_create. Signal-safe. */
ONSTACK_INTERNAL int32_t onstack_clock_of_thread(uint32_t tid);

/* A number in (0, period]. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_clock_random(const onstack_slot *slot, const onstack_thread *record, uint32_t tid);

/* The time on the session's clock: the thread's CPU time or real time. False if the thread is
   gone, or a filter refuses. Signal-safe. */
ONSTACK_INTERNAL bool onstack_clock_read(const onstack_slot *slot, uint32_t tid, uint64_t *ns);

/* The CPU time of the process that samples of the session answer for: all but that of our own threads, unless it samples
   them. False if a filter refuses. Signal-safe. */
ONSTACK_INTERNAL bool onstack_clock_read_process(const onstack_slot *slot, uint64_t *ns);

/* Gives `record` (claimed for `tid`) a running timer, or marks it ONSTACK_THREAD_UNARMED. Signal-safe. */
ONSTACK_INTERNAL void onstack_clock_arm(onstack_slot *slot, onstack_thread *record, uint32_t tid);

/* Deletes a record's timer, if it has one. Start, stop and housekeeping. Signal-safe. */
ONSTACK_INTERNAL void onstack_clock_disarm(onstack_thread *record);

/*
 * The books at stop, for a record with a timer: a thread that has not had the processor since its last tick was due, or
 * blocks the signal, has ticks that never come (the kernel drops them with the timer). First, when nobody arms any more,
 * how many have been due, and the timer is deleted; then, when no handler is inside any more, how many of these are
 * missing. Stop only.
 */
ONSTACK_INTERNAL void onstack_clock_settle(const onstack_slot *slot, onstack_thread *record, uint32_t tid);
ONSTACK_INTERNAL uint32_t onstack_clock_missing(const onstack_thread *record);

/* A process tick met a thread that has a timer: notices when that timer belongs to a dead thread of the same id and
   replaces it. True if it did (the thread counts as new). Signal-safe. */
ONSTACK_INTERNAL bool onstack_clock_revive(onstack_slot *slot, onstack_thread *record, uint32_t tid);

/* The timer of a process clock, for control/tick/process_clock.c: made without ticking; set, its first tick after `first`
   nanoseconds of the process's CPU time; its books as onstack_clock_settle has them, and its id (< 0: it had none), which
   onstack_clock_end deletes. 0 or -errno. Ordinary threads. */
ONSTACK_INTERNAL int onstack_clock_create_process(onstack_process_clock *clock);
ONSTACK_INTERNAL int onstack_clock_set_process(onstack_process_clock *clock, uint64_t first);
ONSTACK_INTERNAL int32_t onstack_clock_settle_process(onstack_process_clock *clock);
ONSTACK_INTERNAL void onstack_clock_end(int32_t timer);

/* The process's clock has met a thread that has a timer of its own, `timer`: its next tick keeps away from that one's. Or it
   has `ended_call`: it was meant for another thread, whose own tick came with it. Inside the handler of that tick. */
ONSTACK_INTERNAL void onstack_clock_keep_apart(onstack_process_clock *clock, int32_t timer, bool ended_call);

/* Whether the kernel lets us make, set and delete a timer on that clock: before one ticks that nobody can stop. Start only. */
ONSTACK_INTERNAL int onstack_clock_try(int32_t clock, int32_t signal, uint32_t tid);

#endif
