/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Go's own description of its frames and of its switch to C, read in the handler. */
#ifndef ONSTACK_SAMPLER_UNWIND_GO_STACK_H
#define ONSTACK_SAMPLER_UNWIND_GO_STACK_H

#include "sampler/unwind/code_map.h"
#include "sampler/unwind/memory.h"

typedef struct onstack_go_frame {
  uint64_t entry; /* of the function */
  int32_t depth;  /* bytes between SP and the return address at this instruction */
  bool writes_sp; /* the function changes SP in ways that the table does not tell (runtime/symtab.go, SPWRITE) */
} onstack_go_frame;

/* What .gopclntab's pcsp table says at `address` in this runtime's text; false if it says nothing. Signal-safe. */
ONSTACK_INTERNAL bool onstack_go_frame_at(const onstack_go_runtime *go, uint64_t address, onstack_go_frame *frame);

/*
 * The stack pointer at which a goroutine waits while it is in C: from what asmcgocall stored at `sp` on g0's stack (the
 * C function's CFA). 0 if that is not a plausible pair of g and depth. Signal-safe.
 *   amd64 (runtime/asm_amd64.s): 0(SP) = depth, 8(SP) = g
 *   arm64 (runtime/asm_arm64.s): 0(RSP) = g, 8(RSP) = depth
 * g.stack is g's first field {lo, hi} (runtime/runtime2.go); without a g, asmcgocall was on g0 already.
 */
ONSTACK_INTERNAL uint64_t onstack_go_waiting_sp(onstack_memory *memory, uint64_t sp);

/* The bounds of the stack of the calling thread's g. False: they are not known. Signal-safe. */
ONSTACK_INTERNAL bool onstack_go_running_stack(onstack_memory *memory, const onstack_go_runtime *go, uint64_t stack[2]);

/* Where a goroutine waits: what its g.sched says. */
typedef struct onstack_go_point {
  uint64_t pc; /* behind a call, of morestack; 0: the thread has given up its goroutine already */
  uint64_t sp;
  uint64_t lr; /* arm64: who called the function that holds pc, which has no frame yet; else 0 */
} onstack_go_point;

/*
 * Where the goroutine waits whose stack this thread is growing or preempting: inside runtime.newstack, which morestack
 * called on g0. True only if all of this holds: the layout is known, the thread's g is m.g0, m.curg is a goroutine of
 * this m, and its g.sched lies in its stack. The caller makes sure that the scheduler has not been entered since: m.curg
 * may be another goroutine then.
 *
 * While copystack moves the stack, g.sched.sp leads to the old stack until g.stack is the new one, and both copies hold
 * the same return addresses; g.sched.bp is adjusted before the words that it points to are copied, so it is not used.
 * Signal-safe.
 */
ONSTACK_INTERNAL bool onstack_go_growing(onstack_memory *memory, const onstack_go_runtime *go, onstack_go_point *at);

/* The g of the goroutine that waits for what this thread does on g0's stack, C code most often, and where; 0: none, or not
   known. In the same way. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_go_waiting(onstack_memory *memory, const onstack_go_runtime *go, onstack_go_point *at);

#endif
