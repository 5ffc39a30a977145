/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steps through code that no module describes: what a just-in-time compiler wrote, mostly. Its names are
 * profile/generated/name_source.h's.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_GENERATED_CODE_H
#define ONSTACK_SAMPLER_UNWIND_GENERATED_CODE_H

#include "sampler/unwind/memory.h"
#include "onstack/onstack.h"

/* A frame in such code; after a step, that of its caller. */
typedef struct onstack_code_frame {
  uint64_t pc, sp, fp;
  uint64_t low;  /* the interrupted stack pointer: what lies below it on its stack is nobody's */
  bool exact;    /* pc was interrupted there; else it is a return address. After a step it is one */
  bool switched; /* set by a step: the caller is on another stack, which the memory reader was told of */
} onstack_code_frame;

/*
 * Steps to the caller, by the chain of frame pointers, and where that ends, by what is known of runtimes that enter such code.
 * pc 0: there is none, the stack is whole. Another result than ONSTACK_TRUNCATED_NOT says why the stack is cut here.
 * Signal-safe.
 */
ONSTACK_INTERNAL onstack_truncation onstack_generated_step(onstack_code_frame *frame, onstack_memory *memory);

/* Whether such code may be called from this return address, by a frame record of its own. Each processor has its own.
   Signal-safe. */
ONSTACK_INTERNAL bool onstack_code_record_is_own(uint64_t return_address);

/* From the outermost frame of such code, which cleared the frame pointer, with SP behind its return address, to whoever
   entered it, as a step; ONSTACK_TRUNCATED_STACK_SWITCH: not known. Each processor has its own. Signal-safe. */
ONSTACK_INTERNAL onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory);

/* ---- code that is jumped to ---------------------------------------------------------------------------------------------- */

/*
 * Code that a compiler made at run time, and that a native function jumps to and is jumped back to from: it has no frame of its
 * own, and its stack pointer is that function's. PHP's just-in-time compiler makes such code, in builds whose handlers are
 * labels in execute_ex, which on x86_64 reserves room for it in that frame (Zend/zend_vm_opcodes.h,
 * ZEND_VM_HYBRID_JIT_RED_ZONE_SIZE).
 *
 * One for the process. Written in ordinary threads, by two of them that know a half each.
 */

typedef struct onstack_jumped_code {
  /* An address in the function, behind its prologue; 0: there is none (publish / observe; php_find.c). */
  uint64_t from;
  uint64_t frame_size; /* from its SP to its frame record, where its rules lead from that alone; else 0 */
  uint64_t low;        /* where the code lies (sampler/session/code_map_update.c) */
  uint64_t bytes;      /* 0: not known (publish / observe) */
} onstack_jumped_code;

ONSTACK_INTERNAL_DATA onstack_jumped_code onstack_code_jumped;

#endif
