/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A native stack on demand, outside of any session: for a host runtime that makes its own tracebacks (Go's
 * runtime.SetCgoTraceback). Signal-safe; everything is prepared in ordinary threads (core/sampler/api/traceback.c).
 *
 * The walk is unwinder `rules`. What a session's thread record knows of a thread is not there; instead the bounds of
 * the stack are taken from what needs no question: the main thread's as the kernel said at preparation, and for other
 * threads the thread pointer, which libc puts at the top of the stacks that it makes. Between the two and elsewhere the
 * kernel copies.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_TRACEBACK_WALK_H
#define ONSTACK_SAMPLER_UNWIND_TRACEBACK_WALK_H

#include "platform/atomics.h"
#include "sampler/unwind/memory.h"
#include "onstack/onstack.h"

/* Written once by the preparation, before `ready`. */
typedef struct onstack_traceback_state {
  uint32_t ready;  /* publish / observe; 0: walks return nothing */
  uint32_t inside; /* walks and look-ups in progress (dekker): what they may read is not freed */
  const onstack_reader *reader;
  bool copy_works;
  uint32_t stale; /* a walk met code that was not there at the last preparation */
  /* Process id of the preparation in progress; 0: none. A child that nobody could put in order (fork.h: kernels before
     4.14) sees its parent's and goes ahead. */
  int32_t preparing;
} onstack_traceback_state;

ONSTACK_INTERNAL_DATA onstack_traceback_state onstack_traceback;

/*
 * Look-up addresses of the native frames from `from` on, innermost first, up to the first frame of Go code (which is
 * left out) or the root. Returns how many were written. Signal-safe.
 */
ONSTACK_INTERNAL uint32_t onstack_traceback_run(const onstack_registers *from, uint64_t *frames, uint32_t capacity);

/* One frame up by the rule of its code, on the calling thread's own live stack; false: no rule says how. Signal-safe. */
ONSTACK_INTERNAL bool onstack_traceback_step(onstack_registers *registers);

/* Around all that reads tables which may be retired. Signal-safe. */
ONSTACK_INTERNAL void onstack_traceback_enter(void);
ONSTACK_INTERNAL void onstack_traceback_leave(void);

/* In the child of a fork: walks and preparations of other threads are not under way here. They would keep retired
   tables for ever, and each later preparation away. */
ONSTACK_INTERNAL void onstack_traceback_after_fork(void);

/* True while a walk or look-up is in progress; see sampler/modules/readers.h for what one look proves. */
static inline __attribute__((unused)) bool onstack_traceback_is_busy(void) {
  onstack_fence_dekker();
  return onstack_dekker_load(&onstack_traceback.inside) != 0;
}

#endif
