/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A POSIX timer of the kernel's, made by raw system calls: so any thread of the process can be given one without its
 * cooperation, and the signal handler can make one. What it has ticked is compared with what was due when it is stopped.
 *
 * A timer has a state, which changes by compare-and-swap alone, so that of two who would delete it one does:
 *
 *   from          to        who
 *   NONE          ARMING    the record's claimer: start, a scan, or the thread itself in the handler of a process tick.
 *                           Of a process clock: start, under the control lock
 *   NONE          UNWANTED  start, a scan: the session's filter says no
 *   ARMING        ARMED     who arms, before the timer is set: its first tick is looked at already
 *   ARMING        REFUSED   who arms: the quota, the kernel or a filter gives none, or the thread has ended
 *   ARMED         REFUSED   who armed: the timer could not be set
 *   ARMED         ARMING    a handler of a process tick, a scan: it belongs to a thread that has ended, whose id another has
 *   ARMED         STOPPED   stop: how many ticks have been due is noted after this
 *   ARMED         NONE      housekeeping: the thread has ended, its record is about to be free
 *   REFUSED, UNWANTED, STOPPED
 *                 NONE      the same, and stop when no handler is inside any more
 *   ARMING, STOPPED
 *                 NONE      of a process clock: stop, start; under the control lock
 *
 * Who takes it out of ARMED deletes the kernel's timer: onstack_timer_take gives its id to nobody else. Nobody touches one
 * that is ARMING but who arms. In the child of a fork there are neither timers nor other threads: onstack_timer_after_fork
 * stores.
 */
#ifndef ONSTACK_SAMPLER_THREADS_TIMER_H
#define ONSTACK_SAMPLER_THREADS_TIMER_H

#include "platform/atomics.h"
#include "platform/defs.h"

typedef enum onstack_timer_state {
  ONSTACK_TIMER_NONE = 0, /* the record is free, or its claimer is filling it in */
  ONSTACK_TIMER_ARMING,
  ONSTACK_TIMER_ARMED,
  ONSTACK_TIMER_REFUSED, /* on the CPU clock the process tick stands in */
  ONSTACK_TIMER_UNWANTED,
  ONSTACK_TIMER_STOPPED,
} onstack_timer_state;

/* An instant in 32 bits, rounded up: the difference of two holds 19 hours of a thread that blocks the signal. */
#define ONSTACK_TIMER_UNIT ((uint64_t)32768) /* nanoseconds */

typedef struct onstack_timer {
  int32_t id;       /* si_timerid of its ticks. Written while ARMING, means something while ARMED */
  uint32_t ticks;   /* that came since it was set, overruns too */
  uint32_t first;   /* when the first of them is due, by its clock, in ONSTACK_TIMER_UNIT; 0: not known */
  uint8_t state;    /* onstack_timer_state */
  uint8_t meetings; /* process ticks that met its thread since it ticked last */
  uint16_t before;  /* ticks of what its thread had used when a scan found it */
} onstack_timer;

static inline onstack_timer_state onstack_timer_state_of(const onstack_timer *timer) {
  return (onstack_timer_state)onstack_observe(&timer->state); /* pairs with onstack_timer_move */
}

/* One of the transitions above; false: its state was another one. Signal-safe. */
static inline bool onstack_timer_move(onstack_timer *timer, onstack_timer_state from, onstack_timer_state to) {
  uint8_t expected = (uint8_t)from;
  return onstack_cas(&timer->state, &expected, (uint8_t)to);
}

/* Whether a tick with this id is its own. Signal-safe. */
static inline bool onstack_timer_ticks_as(const onstack_timer *timer, int32_t id) {
  return onstack_load_relaxed(&timer->state) == ONSTACK_TIMER_ARMED && onstack_load_relaxed(&timer->id) == id;
}

/* Out of ARMED; true: the caller is the one who deletes *id. Signal-safe. */
ONSTACK_INTERNAL bool onstack_timer_take(onstack_timer *timer, onstack_timer_state to, int32_t *id);

/* Out of REFUSED, UNWANTED or STOPPED to NONE. Ordinary threads. */
ONSTACK_INTERNAL void onstack_timer_clear(onstack_timer *timer);

/* NONE, whatever it was. In the child of a fork. */
ONSTACK_INTERNAL void onstack_timer_after_fork(onstack_timer *timer);

/* Nothing has ticked, nothing is due. By who arms. Signal-safe. */
ONSTACK_INTERNAL void onstack_timer_reset(onstack_timer *timer);

/* Makes a timer on a kernel's clock, which does not tick yet; `tid` 0: its signal goes to the process. 0 or -errno.
   Signal-safe. */
ONSTACK_INTERNAL int onstack_timer_create(onstack_timer *timer, int32_t clock, int32_t signal, uint32_t tid,
                                          uint64_t cookie);

/* ARMED, with ticks from `first_ns` nanoseconds of its clock on; one that ticks already goes on so. 0 or -errno.
   Signal-safe. */
ONSTACK_INTERNAL int onstack_timer_set(onstack_timer *timer, int32_t clock, uint64_t first_ns, uint64_t period_ns);

/* Ticks are due from that instant of its clock on, and none has come. Signal-safe. */
ONSTACK_INTERNAL void onstack_timer_due_from(onstack_timer *timer, uint64_t from_ns);

/*
 * The next tick of one that is ARMED comes at `at_ns` of its clock, which has not come, and the others a period after each
 * other. `anew`: nothing has ticked, nothing else is due. *left_ns, if not NULL: what was left until the one that would have
 * been next. 0 or -errno. Signal-safe.
 */
ONSTACK_INTERNAL int onstack_timer_set_at(onstack_timer *timer, uint64_t at_ns, uint64_t period_ns, bool anew,
                                          uint64_t *left_ns);

/* Nanoseconds until the next tick, 0: there is none. -errno where nobody can tell. Signal-safe. */
ONSTACK_INTERNAL int onstack_timer_left(const onstack_timer *timer, uint64_t *ns);

/* Deletes a timer of the kernel's by its id. Signal-safe. */
ONSTACK_INTERNAL void onstack_timer_delete(int32_t id);

/* Timers that could be neither deleted nor stopped (a filter that came later): they tick until the process ends. */
ONSTACK_INTERNAL_DATA uint32_t onstack_timers_left;

/*
 * The accounting at stop: a thread that has not had the processor since its last tick was due, or blocks the signal, has
 * ticks that never come (the kernel drops them with the timer). First, when nobody arms any more and the timer is STOPPED:
 * how many ticks have been due by `now_ns` of its clock (0: not known). Then, when no handler is inside any more, how many
 * of these have not come. Stop only.
 */
ONSTACK_INTERNAL uint32_t onstack_timer_due(const onstack_timer *timer, uint64_t period_ns, uint64_t now_ns);
ONSTACK_INTERNAL uint32_t onstack_timer_missing(const onstack_timer *timer, uint32_t due);

/* Whether the kernel lets us make, set and delete a timer on that clock: before one ticks that nobody can stop. Start only. */
ONSTACK_INTERNAL int onstack_timer_probe(int32_t clock, int32_t signal, uint32_t tid);

/* The CPU clock of a thread, for clock_gettime and timer_create. Signal-safe. */
ONSTACK_INTERNAL int32_t onstack_timer_cpu_clock(uint32_t tid);

/* The time on a clock of the kernel's. False if its thread is gone, or a filter refuses. Signal-safe. */
ONSTACK_INTERNAL bool onstack_timer_read_clock(int32_t clock, uint64_t *ns);

#endif
