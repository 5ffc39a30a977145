/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What all walks share, whoever asks for one: a sample (record_handler.c), a stack that was kept (sampler/drain/deliver.c), a
 * traceback on demand (traceback_walk_handler.c). First the view of memory, then the walk, later the call-site check.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_WALK_H
#define ONSTACK_SAMPLER_UNWIND_WALK_H

#include "onstack/onstack.h"
#include "platform/atomics.h"
#include "platform/defs.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/unwinder.h"

#include <ucontext.h>

/* A view of memory without bounds of any stack: what the caller knows of them goes into `ranges`. `bounds` is asked for
   those that are missing; NULL: nobody is, and the kernel copies. Signal-safe. */
static inline __attribute__((always_inline, unused)) void
onstack_walk_prepare(onstack_memory *memory, const onstack_reader *reader, bool copy_works, onstack_stack_bounds *bounds) {
  memory->reader = reader;
  memory->bounds = bounds;
  memory->asked = false;
  memory->elsewhere = false;
  memory->copy_works = copy_works;
  memory->page_low = memory->page_high = memory->before[0] = memory->before[1] = 0;
  memory->low = memory->high = 0;
}

static inline __attribute__((always_inline, unused)) void onstack_walk_forget_ranges(onstack_memory *memory) {
  for (uint32_t i = 0; i < ONSTACK_STACK_RANGES; i++) memory->ranges[i].low = memory->ranges[i].high = 0;
}

/* Below SP the kernel leaves the red zone and then writes the end of its frame, as far as a cache line's alignment lets it
   (arch/x86/kernel/fpu/signal.c, FP_XSTATE_MAGIC2; arch/arm64/kernel/signal.c, frame_record). */
#define ONSTACK_WALK_FRAME_NEAR 256u
#define ONSTACK_WALK_FRAME_FAR ((uint64_t)64 << 10) /* larger is no signal's frame, with what runs on top of it */

/*
 * The page of the stack pointer needs no question where the calling thread itself stands on it: this very function, or the
 * signal's frame, which the kernel has just written right below the stack pointer, when it has not gone to an alternate
 * stack. Nobody can take a page away that its thread returns by. Signal-safe.
 */
static inline __attribute__((always_inline, unused)) void onstack_walk_stand(const onstack_walk *walk) {
  onstack_memory *memory = walk->memory;
  const ucontext_t *context = walk->ucontext;
  const uint64_t here = (uint64_t)(uintptr_t)memory, sp = walk->registers->sp, page = sp & ~(ONSTACK_PAGE - 1);
  if (memory->reader != &onstack_reader_probe || memory->elsewhere) return;
  if (page != (here & ~(ONSTACK_PAGE - 1))) {
    if (!context || sp - here >= ONSTACK_WALK_FRAME_FAR || sp - page < ONSTACK_WALK_FRAME_NEAR) return;
    if (here - (uint64_t)(uintptr_t)context->uc_stack.ss_sp < context->uc_stack.ss_size) return;
  }
  memory->page_low = page;
  memory->page_high = page + ONSTACK_PAGE;
}

/* `memory` lies on the calling thread's stack. Signal-safe. */
static inline __attribute__((always_inline, unused)) onstack_walk_result
onstack_walk_run(const onstack_unwinder_ops *unwinder, const onstack_walk *walk) {
  if (unwinder->reads_stack) {
    onstack_memory_enter_stack(walk->memory, walk->registers->sp);
    onstack_walk_stand(walk);
  }
  return unwinder->run(walk);
}

/* ---- call sites ---------------------------------------------------------------------------------------------------------- */

/*
 * The check that a return address follows a call, or is an entry that is only returned to (arch.h), once for each new one. A
 * walk marks the frames whose return address the PC cache does not know as proven; the code in front of them is read later,
 * where a sample leaves the ring. Reading it in the handler made a sample with twenty new callers cost four times as much.
 */

/*
 * Proves the marked frames of one stack, takes their marks away, and tells the PC cache. Returns how many frames can be
 * believed: all, or those before the first that is no code or that nobody returns to. Code that cannot be read (unloaded since,
 * or execute-only) proves nothing either way, and its frames stay. Code that was unloaded and replaced since may cut a true
 * stack; it never lengthens one. A frame that is no code keeps its mark. Signal-safe; any thread.
 */
ONSTACK_INTERNAL uint32_t onstack_call_sites_check(const uint64_t *frames, uint8_t *unwound_by, uint32_t count);

/*
 * Returns true if a stack ends at its root because its first `believed` frames are all that can be believed. A program that
 * makes a stack (makecontext, boost.context, libco) writes the first return address by hand, and no call precedes it. That
 * is certain only if .eh_frame led through all frames below: a frame pointer may have found any word. The interrupted
 * function alone does not suffice, because assembly may push words without saying so. Signal-safe; any thread.
 */
ONSTACK_INTERNAL bool onstack_call_sites_end(const uint8_t *unwound_by, uint32_t believed);

/* Ends a stack behind the last frame that can be believed. Signal-safe. */
static inline __attribute__((unused)) ONSTACK_HANDLER void
onstack_walk_check(bool copy_works, const uint64_t *frames, uint8_t *unwound_by, onstack_walk_result *result) {
  if (!copy_works) return;
  const uint32_t believed = onstack_call_sites_check(frames, unwound_by, result->frame_count);
  if (believed == result->frame_count) return;
  const bool root = onstack_call_sites_end(unwound_by, believed);
  *result = (onstack_walk_result){believed, root ? ONSTACK_TRUNCATED_NOT : ONSTACK_TRUNCATED_BAD_RETURN};
}

/*
 * A native stack on demand, outside of any session: for a host runtime that makes its own tracebacks (Go's
 * runtime.SetCgoTraceback). Signal-safe; everything is prepared in ordinary threads (core/sampler/api/traceback.c).
 *
 * The walk is unwinder `rules`. What a session's thread record knows of a thread is not there; instead the bounds of
 * the stack are taken from what needs no question: the main thread's as the kernel said at preparation, and for other
 * threads the thread pointer, which libc puts at the top of the stacks that it makes. Between the two and elsewhere the
 * kernel copies.
 */

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
