/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Unwinder `pc_only`: the interrupted PC and nothing else. The reference variant: it reads no memory. */
#include "sampler/unwind/unwinder.h"

static ONSTACK_HANDLER onstack_walk_result pc_only_run(const onstack_walk *walk) {
  walk->frames[0] = walk->registers->pc;
  return (onstack_walk_result){1, ONSTACK_TRUNCATED_BY_DESIGN};
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_pc_only = {"pc_only", false, false, 128, pc_only_run};
