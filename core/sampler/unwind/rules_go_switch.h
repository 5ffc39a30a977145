/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules_handler.c for Go's changes of stacks that all processors share; included there and nowhere
   else. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_GO_SWITCH_H
#define ONSTACK_SAMPLER_UNWIND_RULES_GO_SWITCH_H

#include "sampler/unwind/go_stack.h"
#include "sampler/unwind/rules_cursor.h"

/* From asmcgocall, with SP at what it stored on g0's stack, to the frame that called it on the goroutine's stack. */
static ONSTACK_HANDLER onstack_truncation rules_step_waiting(rules_cursor *cursor) {
  uint64_t pair[2];
  uint64_t sp = onstack_go_waiting_sp(cursor->memory, cursor->sp);
  if (sp == 0 || !rules_enter_stack(cursor, sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (!onstack_memory_read_pair(cursor->memory, sp - ONSTACK_GO_RECORD_BELOW, pair)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->sp = sp + 16;
  cursor->fp = pair[0];
  cursor->pc = onstack_address_strip(pair[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* From morestack on g0 to the goroutine whose stack grows; only where no other switch of stacks lies below. */
static ONSTACK_HANDLER onstack_truncation rules_step_growing(rules_cursor *cursor) {
  if (cursor->scheduled) return RULES_STEP_ROOT; /* it was preempted, and the thread has gone on, as after mcall */
  onstack_go_point waits;
  if (cursor->switches > 0 || !onstack_go_growing(cursor->memory, cursor->go, &waits)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (waits.pc == 0) return RULES_STEP_ROOT; /* preempted as well, on its way to the scheduler */
  if (!rules_enter_stack(cursor, waits.sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->pc = waits.pc;
  cursor->sp = waits.sp;
  cursor->lr = waits.lr;
  cursor->by_table = true;
  cursor->fp_unknown = true;
  cursor->exact = false; /* sched.pc is where the call of morestack returns to */
  return RULES_STEP_OK;
}

#endif
