/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Chains of frame pointers: where they end, and how they go on at a change of stacks. */
#ifndef ONSTACK_SAMPLER_UNWIND_FRAME_POINTER_H
#define ONSTACK_SAMPLER_UNWIND_FRAME_POINTER_H

#include "platform/defs.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/memory.h"
#include "onstack/onstack.h"

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

#endif
