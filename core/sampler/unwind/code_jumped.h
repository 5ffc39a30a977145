/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code that a compiler made at run time, and that a native function jumps to and is jumped back to from: it has no frame of its
 * own, and its stack pointer is that function's. PHP's just-in-time compiler makes such code, in builds whose handlers are
 * labels in execute_ex, which on x86_64 reserves room for it in that frame (Zend/zend_vm_opcodes.h,
 * ZEND_VM_HYBRID_JIT_RED_ZONE_SIZE).
 *
 * One for the process. Written in ordinary threads, by two of them that know a half each.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_CODE_JUMPED_H
#define ONSTACK_SAMPLER_UNWIND_CODE_JUMPED_H

#include "platform/atomics.h"
#include "platform/code_source_ops.h"
#include "sampler/unwind/memory.h"

typedef struct onstack_jumped_code {
  /* An address in the function, behind its prologue; 0: there is none (publish / observe; php_find.c). */
  uint64_t from;
  uint64_t frame_size; /* from its SP to its frame record, where its rules lead from that alone; else 0 */
  uint64_t low;        /* where the code lies (sampler/session/code_map_update.c) */
  uint64_t bytes;      /* 0: not known (publish / observe) */
} onstack_jumped_code;

ONSTACK_INTERNAL_DATA onstack_jumped_code onstack_code_jumped;

static inline __attribute__((unused)) ONSTACK_HANDLER bool onstack_code_is_jumped(uint64_t address) {
  const uint64_t bytes = onstack_observe(&onstack_code_jumped.bytes); /* before `low`: published behind it */
  return address - onstack_load_relaxed(&onstack_code_jumped.low) < bytes && onstack_observe(&onstack_code_jumped.from) != 0;
}

/* To the caller of the function, as a step. A return address that was not called is found out at delivery, as of all code
   (sampler/unwind/walk.h). Signal-safe. */
ONSTACK_INTERNAL onstack_truncation onstack_code_leave_jumped(onstack_code_frame *frame, onstack_memory *memory);

#endif
