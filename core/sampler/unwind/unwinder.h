/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The unwinder seam inside the library: registers -> return addresses. A variant is one onstack_unwinder_ops in a file
 * unwinder*_handler.c; the user's own comes through unwinder_handler.c.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_UNWINDER_H
#define ONSTACK_SAMPLER_UNWIND_UNWINDER_H

#include "sampler/unwind/memory.h"
#include "onstack/onstack.h"

/* How a walk came from a frame to its caller. */
#define ONSTACK_BY_NOTHING 0u  /* the last frame: the root, or where the walk broke off */
#define ONSTACK_BY_RULES 1u    /* .eh_frame */
#define ONSTACK_BY_GO 2u       /* Go's tables and conventions */
#define ONSTACK_BY_RECORD 3u   /* the chain of frame pointers */
#define ONSTACK_BY_UNWINDER 4u /* the user's */

/* Marks in the same byte: the caller has to be proven yet (walk.h). */
#define ONSTACK_BY_UNPROVEN 0x80u
#define ONSTACK_BY_UNLISTED 0x40u /* and to be looked for in the map of code, which was older than the sample */

/* A frame pointer or a link register that is not known: no address, and not the 0 of a stack's end. */
#define ONSTACK_UNKNOWN_REGISTER 1u

typedef struct onstack_walk {
  const onstack_registers *registers;
  void *ucontext;
  onstack_memory *memory;
  const onstack_unwinder *custom; /* NULL for the built-in ones */
  uint64_t *frames;               /* capacity of them; at least 1 */
  uint32_t capacity;
  uint8_t *unwound_by; /* one ONSTACK_BY_* a frame, with its marks; what stands behind the last frame is undefined.
                          NULL: not wanted */
} onstack_walk;

typedef struct onstack_unwinder_ops {
  const char *name;
  bool reads_stack;     /* by the memory reader: bounds are of use */
  bool needs_rules;     /* rule tables must be derived */
  uint32_t stack_bytes; /* of the signal stack that `run` needs at most (measured by tests/core/test_stack_use.c) */
  onstack_walk_result (*run)(const onstack_walk *walk); /* signal-safe */
} onstack_unwinder_ops;

ONSTACK_INTERNAL_DATA const onstack_unwinder_ops onstack_unwinder_frame_pointer;
ONSTACK_INTERNAL_DATA const onstack_unwinder_ops onstack_unwinder_pc_only;
ONSTACK_INTERNAL_DATA const onstack_unwinder_ops onstack_unwinder_rules;
ONSTACK_INTERNAL_DATA const onstack_unwinder_ops onstack_unwinder_custom;

#endif
