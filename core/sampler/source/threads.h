/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The threads of the process as a session sees them: armed at start, reaped and named by housekeeping. */
#ifndef ONSTACK_SAMPLER_SOURCE_THREADS_H
#define ONSTACK_SAMPLER_SOURCE_THREADS_H

#include "sampler/session/settings.h"
#include "sampler/session/slot.h"

/* How a session's threads tick: each has a timer of the kernel's, or a thread of ours sends the ticks (wall_signal.c). */
typedef struct onstack_thread_timers {
  /* Ticks for the thread `tid`: `record`, which is NONE or ARMING, is ARMED or REFUSED then. Start, or inside a scan. */
  void (*arm)(onstack_slot *slot, onstack_thread *record, uint32_t tid);

  /* No more ticks by the id that onstack_timer_take gave. Any thread. */
  void (*remove)(int32_t id);

  /* The time on the clock of a thread. False if the thread has ended, or a filter refuses. Any thread. */
  bool (*read)(uint32_t tid, uint64_t *ns);

  /* An armed thread has had no tick since housekeeping looked last: true if it is another one than was armed under this id.
     The consumer of the slot. NULL: something else finds that out. */
  bool (*doubts)(const onstack_slot *slot, uint32_t tid);
} onstack_thread_timers;

/* Maps the record region; idempotent. Under the control lock. Returns 0 or -errno. */
ONSTACK_INTERNAL int onstack_threads_prepare(void);

/* A session begins: it stays for good. Under the control lock. */
ONSTACK_INTERNAL void onstack_threads_stay(void);

/* Unmaps it, before there was any timer. Under the control lock. */
ONSTACK_INTERNAL void onstack_threads_unprepare(void);

/* Deletes all timers of the slot. */
ONSTACK_INTERNAL void onstack_threads_disarm_all(onstack_slot *slot);

/* Around all that arms outside of handlers. True if it may: the slot is RUNNING. */
ONSTACK_INTERNAL bool onstack_threads_scan_begin(onstack_slot *slot);
ONSTACK_INTERNAL void onstack_threads_scan_end(onstack_slot *slot);

/* Waits until no scan is arming threads, and none will. After `state` has left RUNNING, before the timers are deleted. */
ONSTACK_INTERNAL void onstack_threads_wait_scanned(onstack_slot *slot);

/* Waits until no living thread is inside. A handler waits for nothing, so this ends when each of them has had the processor. */
ONSTACK_INTERNAL void onstack_threads_wait_outside(onstack_inside *inside);

/* Waits until no handler is inside for this slot. After `state` has left RUNNING. */
ONSTACK_INTERNAL void onstack_threads_wait_idle(onstack_slot *slot);

/* Ticks that were due and will not come, into the counters. All timers are deleted, no handler is inside. */
ONSTACK_INTERNAL void onstack_threads_count_missing(onstack_slot *slot);

/*
 * A thread may have taken a tick from its queue and not yet looked at the signal's action: the kernel lets go of its lock
 * in between (kernel/signal.c, dequeue_signal), and there the thread may lose the processor, or a virtual machine its own.
 * Setting SIG_IGN does not discard that tick; over SIG_DFL it would kill. So before that comes back, every thread that
 * has a tick missing has run for a moment or sleeps; 0.2 s at most. After onstack_threads_count_missing.
 */
ONSTACK_INTERNAL void onstack_threads_wait_delivered(const onstack_slot *slot);

/*
 * True if each record of every slot was seen outside the handler during this call. What was unpublished before the call
 * is then out of every handler's reach: one that begins later is inside first and sees the new state.
 */
ONSTACK_INTERNAL bool onstack_threads_all_idle(void);

/* Forgets all records. No handler is inside any more. */
ONSTACK_INTERNAL void onstack_threads_clear(onstack_slot *slot);

/* Deletes the timers of threads that have ended and notices changed names. The consumer of the slot only. */
ONSTACK_INTERNAL void onstack_threads_tend(onstack_slot *slot);

/* How many ticks wait for threads that block the signal: asked of each thread, when process ticks have come, which look for
   such time. The consumer of the slot. */
ONSTACK_INTERNAL void onstack_threads_look_for_blocked(onstack_slot *slot);

/*
 * 1 if nothing is left of the process but our own threads (own_threads.h) and a first thread that has ended: libc
 * lets a process end with its last thread, and ours must not keep it alive. 0 if there are others, another library's too.
 * -errno where nobody can tell: there is no /proc. Any thread.
 */
ONSTACK_INTERNAL int onstack_threads_are_all_ours(void);

/* Records in use. Any thread. */
ONSTACK_INTERNAL uint64_t onstack_threads_count(const onstack_slot *slot);

/* True if the calling thread is inside the handler of a session (a custom unwinder that calls us). Signal-safe. */
ONSTACK_INTERNAL bool onstack_threads_in_handler(int32_t tid);

#endif
