/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The unwinders that read no memory by themselves: `pc_only`, and the host's. */
#include "sampler/unwind/unwinder.h"

/* Unwinder `pc_only`: the interrupted PC and nothing else. */
static ONSTACK_HANDLER onstack_walk_result pc_only_run(const onstack_walk *walk) {
  walk->frames[0] = walk->registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_BY_DESIGN};
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_pc_only = {"pc_only", false, false, 128, pc_only_run};

/*
 * Adapter for the user's unwinder (onstack_unwinder in the public header). What it returns is checked, because its
 * count decides how far the drain reads.
 */
static ONSTACK_HANDLER onstack_walk_result custom_run(const onstack_walk *walk) {
  onstack_walk_result result =
      walk->custom->walk(walk->custom->data, walk->registers, walk->ucontext, walk->frames, walk->capacity);
  if (result.frame_count > walk->capacity) {
    result.frame_count = walk->capacity;
    result.truncation = ONSTACK_TRUNCATED_DEPTH;
  }
  for (uint32_t i = 0; walk->unwound_by && i < result.frame_count; i++) walk->unwound_by[i] = ONSTACK_BY_UNWINDER;
  if (result.truncation >= ONSTACK_TRUNCATION_COUNT) result.truncation = ONSTACK_TRUNCATED_UNWINDER;
  return result;
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_custom = {"custom", false, false, 0, custom_run};
