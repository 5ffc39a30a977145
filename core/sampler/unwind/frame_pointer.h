/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What unwinder_frame_pointer_handler.c shares with its parts for each processor. */
#ifndef ONSTACK_SAMPLER_UNWIND_FRAME_POINTER_H
#define ONSTACK_SAMPLER_UNWIND_FRAME_POINTER_H

#include "sampler/unwind/code_map.h"
#include "sampler/unwind/memory.h"

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
