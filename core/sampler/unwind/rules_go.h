/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules_handler.c for Go code; included there and nowhere else. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_GO_H
#define ONSTACK_SAMPLER_UNWIND_RULES_GO_H

#include "sampler/unwind/rules_arch.h"
#include "sampler/unwind/rules_go_switch.h"

/* Interrupted in a function that moves to another stack: has SP changed already? */
static ONSTACK_HANDLER onstack_truncation rules_check_switch(const rules_cursor *cursor, bool *switched) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  if (!special || special->switch_at == 0) return ONSTACK_TRUNCATED_STACK_SWITCH;
  *switched = cursor->pc - special->body.low >= special->switch_at;
  return RULES_STEP_OK;
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_called(rules_cursor *cursor) {
  switch (cursor->go_kind) {
  case ONSTACK_GO_ROOT:
  case ONSTACK_GO_LEAVES:
    return RULES_STEP_ROOT;
  case ONSTACK_GO_LOST:
  case ONSTACK_GO_RESUMES:
    return ONSTACK_TRUNCATED_STACK_SWITCH;
  case ONSTACK_GO_GROWS:
    return rules_step_growing(cursor);
  default:
    break;
  }
  if (cursor->by_table && (cursor->go_kind == ONSTACK_GO_PLAIN || cursor->go_kind == ONSTACK_GO_EXACT))
    return rules_step_go_by_table(cursor);
  if (cursor->fp_unknown) return ONSTACK_TRUNCATED_STACK_SWITCH;
  return rules_step_go_by_record(cursor);
}

/* An interrupted Go function: what pcsp says about this very instruction. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_exact(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (cursor->go_kind == ONSTACK_GO_ROOT) return RULES_STEP_ROOT;
  if (cursor->go_kind == ONSTACK_GO_LOST) return ONSTACK_TRUNCATED_STACK_SWITCH; /* either stack may be current */
  if (cursor->go_kind == ONSTACK_GO_GROWS || cursor->go_kind == ONSTACK_GO_LEAVES || cursor->go_kind == ONSTACK_GO_RESUMES) {
    bool switched;
    onstack_truncation why = rules_check_switch(cursor, &switched);
    if (why != RULES_STEP_OK) return why;
    if (switched) return rules_step_go_called(cursor);
  }
  if (!onstack_go_frame_at(cursor->go, cursor->pc, &frame)) return rules_step_go_undescribed(cursor);
  return rules_step_go_interrupted(cursor, &frame);
}

#endif
