/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thread records: what a session knows of each thread that it samples.
 *
 * One region for all slots, mapped once by the first start and never unmapped: its addresses are the cookies in our
 * timers, and nothing else in the process can have them. A tick is ours if its si_value lies in this region.
 *
 * A record is found in two ways: by the cookie (hot path, no look-up), and by thread id (process tick, whose own cookie names
 * the record of a process clock, process_tick.h). The ids stand
 * apart in dense buckets of 16 (a cache line); a thread is in one of the few buckets that follow its home. There are no
 * tombstones and nothing is ever moved, so the look-up needs no lock.
 *
 * Who writes: a record is claimed by its own thread in the handler, or by start (before ticks exist), or by a scan for
 * new threads, during which handlers do not claim (`scanning` in slot.h). It is freed by housekeeping when its thread is
 * gone. So two claims for one thread id cannot meet.
 */
#ifndef ONSTACK_SAMPLER_THREADS_THREAD_TABLE_H
#define ONSTACK_SAMPLER_THREADS_THREAD_TABLE_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "sampler/threads/timer.h"
#include "sampler/unwind/memory.h"

#define ONSTACK_THREAD_RECORDS 16384u /* per slot */
#define ONSTACK_THREAD_BUCKET 16u
#define ONSTACK_THREAD_WINDOW 4u /* buckets that are searched */

typedef struct onstack_thread {
  uint32_t busy; /* handlers inside for this record (dekker with stop) */
  onstack_seqlock
      lock; /* of `name` and `bounds.ranges`; its writer is the claimer while the timer is NONE, then housekeeping */
  onstack_timer timer;
  uint64_t name[2]; /* 16 bytes, NUL-padded */
  onstack_stack_bounds bounds;
} onstack_thread;

/* What housekeeping and stop write down about a thread. No handler looks at it. */
typedef struct onstack_thread_note {
  uint32_t due;       /* the timer is STOPPED: how many ticks have been due. Stop only */
  uint32_t waited_us; /* the thread's CPU time since which stop waits for its last tick; 0: none is on its way */
  uint32_t waiting;   /* ticks that the last look has found blocked, when `ticks` had come. Housekeeping only */
  uint32_t ticks;
  uint16_t looked;    /* the timer's `ticks` when housekeeping looked at the name last */
  uint8_t next_range; /* the range that is replaced next */
} onstack_thread_note;

/* Low bits of a record's address that are free for a generation in the cookie. */
#define ONSTACK_THREAD_GENERATIONS ((uint64_t)sizeof(onstack_thread))

typedef struct onstack_thread_table {
  onstack_thread *records; /* ONSTACK_THREAD_RECORDS; [i] belongs to tids[i] */
  uint32_t *tids;          /* 0: free */
  onstack_thread_note *notes;
  onstack_thread *process; /* lent to a thread that no record could be had for */
} onstack_thread_table;

/*
 * The threads that are inside of something that stop waits for and that belongs to no thread's record. By id, because a thread
 * can end there, and nothing may wait for it then: a seccomp filter kills the thread that makes a forbidden call.
 */
#define ONSTACK_INSIDE 16u
typedef struct onstack_inside {
  uint32_t tids[ONSTACK_INSIDE]; /* 0: free (dekker with stop) */
  uint32_t more;                 /* threads that found no place */
} onstack_inside;

/* A thread enters once before it leaves. Signal-safe. */
ONSTACK_INTERNAL void onstack_inside_enter(onstack_inside *inside, uint32_t tid);
ONSTACK_INTERNAL void onstack_inside_leave(onstack_inside *inside, uint32_t tid);

/* Returns true if the thread had a place. Signal-safe. */
ONSTACK_INTERNAL bool onstack_inside_take_out(onstack_inside *inside, uint32_t tid);

/* Size of the region (19 MiB of addresses; a page comes into being when a record is used), and its one-time
   publication: zeroed memory that is never unmapped. Start only, under the control lock, before any handler. */
ONSTACK_INTERNAL size_t onstack_thread_region_bytes(void);
ONSTACK_INTERNAL void onstack_thread_region_set(void *memory);

/* The part of a slot. Start only. */
ONSTACK_INTERNAL void onstack_thread_table_init(onstack_thread_table *table, uint32_t slot);

/* The record of a process clock, below ONSTACK_MAX_SESSIONS. Start only. */
ONSTACK_INTERNAL onstack_thread *onstack_thread_of_process_clock(uint32_t clock);

/* What a cookie says. By value, in registers: the handler's entry keeps nothing on the signal stack. */
typedef struct onstack_thread_tick {
  onstack_thread *record; /* NULL: the number is no cookie of this copy */
  uint32_t slot;          /* from ONSTACK_MAX_SESSIONS on: a process clock's record */
  uint32_t generation;
} onstack_thread_tick;

/* Signal-safe. */
ONSTACK_INTERNAL onstack_thread_tick onstack_thread_from_cookie(uint64_t value);

static inline uint64_t onstack_thread_cookie(const onstack_thread *record, uint32_t generation) {
  return (uint64_t)(uintptr_t)record | (generation & (ONSTACK_THREAD_GENERATIONS - 1));
}

/* The record of a thread id, or NULL. Signal-safe. */
ONSTACK_INTERNAL onstack_thread *onstack_thread_find(const onstack_thread_table *table, uint32_t tid);

/* A fresh record for a thread id that has none; NULL when its buckets are full. Signal-safe; see "Who writes". */
ONSTACK_INTERNAL onstack_thread *onstack_thread_claim(const onstack_thread_table *table, uint32_t tid);

/* Gives a record back. Its thread must be gone, and its timer NONE. Housekeeping only. */
ONSTACK_INTERNAL void onstack_thread_release(const onstack_thread_table *table, onstack_thread *record);

/* Ordinary threads. */
ONSTACK_INTERNAL onstack_thread_note *onstack_thread_note_of(const onstack_thread_table *table,
                                                             const onstack_thread *record);

/* NUL-padded. Its claimer while the timer is NONE, then housekeeping. Signal-safe. */
static inline __attribute__((unused)) ONSTACK_HANDLER void onstack_thread_set_name(onstack_thread *record,
                                                                                   const uint64_t name[2]) {
  if (record->name[0] == name[0] && record->name[1] == name[1]) return;
  onstack_seqlock_write_begin(&record->lock);
  onstack_store_relaxed(&record->name[0], name[0]);
  onstack_store_relaxed(&record->name[1], name[1]);
  onstack_seqlock_write_end(&record->lock);
}

/* True while its claimer fills it in, or gives it a timer: nobody else touches it. */
static inline bool onstack_thread_is_claimed(const onstack_thread *record) {
  return onstack_timer_state_of(&record->timer) <= ONSTACK_TIMER_ARMING;
}

/* The thread id that a record belongs to; 0 if free (and for the process record). Signal-safe. */
ONSTACK_INTERNAL uint32_t onstack_thread_tid(const onstack_thread_table *table, const onstack_thread *record);

/* Copies name and ranges as they belong together; false if housekeeping was writing (they are zero then).
   Signal-safe, never waits. */
ONSTACK_INTERNAL bool onstack_thread_snapshot(const onstack_thread *record, uint64_t name[2],
                                              onstack_stack_range ranges[ONSTACK_STACK_RANGES]);

#endif
