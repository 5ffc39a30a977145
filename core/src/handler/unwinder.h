/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The unwinder seam inside the library: registers -> return addresses. A variant is a sibling file unwinder_<name>.c
 * behind this struct; the user's own comes through unwinder_custom.c.
 */
#ifndef ONSTACK_HANDLER_UNWINDER_H
#define ONSTACK_HANDLER_UNWINDER_H

#include "handler/memory.h"
#include "onstack/onstack.h"

typedef struct onstack_walk {
  const onstack_registers *registers;
  void *ucontext;
  onstack_memory *memory;
  const onstack_unwinder *custom; /* NULL for the built-in ones */
  uint64_t *frames;               /* capacity of them; at least 1 */
  uint32_t capacity;
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
