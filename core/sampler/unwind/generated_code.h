/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code without rules: chains of frame pointers, where they end and how they go on at a change of stacks; generated code. */
#ifndef ONSTACK_SAMPLER_UNWIND_GENERATED_CODE_H
#define ONSTACK_SAMPLER_UNWIND_GENERATED_CODE_H

#include "onstack/onstack.h"
#include "platform/defs.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/memory.h"

/* ---- where a chain ends -------------------------------------------------------------------------------------------------- */

/*
 * Whether a chain of frame pointers is whole where it ends. Zero marks the outermost frame, but code without frame pointers
 * keeps anything in the register, zero too, and leaves it zero from the beginning of a thread on. So the chain is whole only
 * if its last frame is known to begin stacks:
 *
 *   the entries of the program and of its loader
 *   musl's code that calls main, if it is a library: on the first words of the main thread's stack
 *   libc's code that calls the function of a thread: it called that of a thread of ours, too
 *   Go's functions at which a stack begins (sampler/unwind/code_map.h)
 */

/* Written by ordinary threads, with the same numbers each time; 0: not known. */
typedef struct onstack_chain_roots {
  uint64_t entry;         /* of the program */
  uint64_t loader_entry;  /* of its loader, where the kernel starts the main thread */
  uint64_t main_sp;       /* the stack pointer there */
  uint64_t thread_begins; /* the return address of a thread's function */
  uint32_t has_libc;      /* libc is a library */
} onstack_chain_roots;

ONSTACK_INTERNAL_DATA onstack_chain_roots onstack_chain_roots_known;

/* Whether a stack begins in the frame that holds `address` (inside the call), whose callee's CFA is `sp`. Signal-safe. */
ONSTACK_INTERNAL bool onstack_chain_begins(uint64_t address, uint64_t sp);

/* Why a chain that ends in this frame is not whole, or ONSTACK_TRUNCATED_NOT. Signal-safe. */
ONSTACK_INTERNAL onstack_truncation onstack_chain_end(uint64_t address, uint64_t sp);

/* The function of a thread of ours says where it returns to. */
#define ONSTACK_CHAIN_THREAD_BEGINS()                                                                                       \
  onstack_chain_note_thread((uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))
ONSTACK_INTERNAL void onstack_chain_note_thread(uint64_t return_address);

/* ---- changes of stacks --------------------------------------------------------------------------------------------------- */

/* What unwinder_frame_pointer_handler.c shares with its parts for each processor. */

typedef struct onstack_fp_cursor {
  uint64_t fp;
  uint64_t floor;     /* the next record must lie here or above */
  uint64_t system_sp; /* arm64: g0.sched.sp outside of the last callback passed; 0: the thread's own */
  bool scheduled;     /* a frame of Go's scheduler was passed */
} onstack_fp_cursor;

/* The record at the cursor belongs to code at `pc`, which asmcgocall or crosscall2 has called. */
typedef struct onstack_fp_call {
  const onstack_go_runtime *go;
  uint64_t saved_fp;
  uint64_t pc;
  uint64_t return_address;
  uint32_t kind; /* ONSTACK_GO_BY_G, ONSTACK_GO_CROSSCALL2 */
} onstack_fp_call;

/* Moves the cursor from there to the caller's record, on another stack perhaps. False: it cannot be found. Signal-safe. */
ONSTACK_INTERNAL bool onstack_fp_cross(onstack_memory *memory, onstack_fp_cursor *cursor, const onstack_fp_call *call);

/*
 * Steps through code that no module describes: what a just-in-time compiler wrote, mostly. Its names are
 * profile/generated/name_source.h's.
 */

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
