/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The threads of the process as a session sees them: armed at start, reaped and named by housekeeping. */
#ifndef ONSTACK_CONTROL_THREADS_H
#define ONSTACK_CONTROL_THREADS_H

#include "handler/slot.h"

/* Maps the record region; idempotent. Under the control lock. Returns 0 or -errno. */
ONSTACK_INTERNAL int onstack_threads_prepare(void);

/* Sets onstack_timers_allowed: a quarter of RLIMIT_SIGPENDING, which the kernel counts per user. */
ONSTACK_INTERNAL void onstack_threads_set_quota(void);

/* Gives every thread of /proc/self/task a timer, but our own. Before the process tick runs. */
ONSTACK_INTERNAL void onstack_threads_arm_all(onstack_slot *slot);

/*
 * Gives a timer to threads that have none yet. Needed where the process tick does not find them: before Linux 6.4 the
 * kernel hands a process-wide signal to the main thread whenever that one takes it, running or not (kernel/signal.c,
 * complete_signal; changed for posix timers in 6.4). There new threads are found late, and short ones missed.
 * The consumer of the slot only.
 */
ONSTACK_INTERNAL bool onstack_threads_need_scan(void);
ONSTACK_INTERNAL void onstack_threads_arm_new(onstack_slot *slot);

/* Deletes all timers of the slot. */
ONSTACK_INTERNAL void onstack_threads_disarm_all(onstack_slot *slot);

/* Waits until no scan is arming threads, and none will. After `state` has left RUNNING, before the timers are deleted. */
ONSTACK_INTERNAL void onstack_threads_wait_scanned(onstack_slot *slot);

/* Waits until no handler is inside for this slot. After `state` has left RUNNING. */
ONSTACK_INTERNAL void onstack_threads_wait_idle(onstack_slot *slot);

/*
 * True if each record of every slot was seen outside the handler during this call. What was unpublished before the call
 * is then out of every handler's reach: one that begins later raises `busy` first and sees the new state.
 */
ONSTACK_INTERNAL bool onstack_threads_all_idle(void);

/* Forgets all records. No handler is inside any more. */
ONSTACK_INTERNAL void onstack_threads_clear(onstack_slot *slot);

/* Deletes the timers of threads that have ended and notices changed names. The consumer of the slot only. */
ONSTACK_INTERNAL void onstack_threads_tend(onstack_slot *slot);

/* Records in use. Any thread. */
ONSTACK_INTERNAL uint64_t onstack_threads_count(const onstack_slot *slot);

/* True if the calling thread is inside the handler of a session (a custom unwinder that calls us). Signal-safe. */
ONSTACK_INTERNAL bool onstack_threads_in_handler(int32_t tid);

#endif
