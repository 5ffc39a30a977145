/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sampler/unwind/rules_arch.h for x86_64: Go code. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_GO_X86_64_H
#define ONSTACK_SAMPLER_UNWIND_RULES_GO_X86_64_H

#include "sampler/unwind/rules_go_switch.h"

/* A Go function without a pcsp table. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_undescribed(rules_cursor *cursor) {
  return rules_step_record(cursor);
}

/* A Go frame that is as large as pcsp says. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_frame(rules_cursor *cursor, const onstack_go_frame *frame) {
  uint64_t pair[2];
  uint64_t cfa = cursor->sp + (uint64_t)frame->depth + 8;
  onstack_truncation why = rules_check_cfa(cursor, cfa);
  if (why != RULES_STEP_OK) return why;
  if (!onstack_memory_read_pair(cursor->memory, cfa - 16, pair)) return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->sp = cfa;
  /* With depth 0 nothing is saved, but for duffcopy and duffzero before Go 1.26: their callers make a record around the
     return address, below their own SP (cmd/compile, DUFFCOPY). */
  if (frame->depth >= 8 || cursor->fp == cfa - 16) {
    cursor->fp = pair[0];
    cursor->fp_unknown = false;
  }
  cursor->pc = pair[1];
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* A caller on a goroutine whose stack is being moved. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_by_table(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (onstack_go_frame_at(cursor->go, cursor->pc - 1, &frame) && !frame.writes_sp)
    return rules_step_go_frame(cursor, &frame);
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

/*
 * Interrupted in asmcgocall. C gives RBP back as it got it, while a callback may have moved the goroutine's stack: RBP
 * leads to a freed stack then. Behind the call it is believed only where it agrees with SP or with what is stored there.
 */
static ONSTACK_HANDLER bool rules_is_fp_fresh(const rules_cursor *cursor) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  if (special && cursor->pc - special->body.low <= special->switch_at) return true;
  return cursor->fp == cursor->sp || cursor->fp == onstack_go_waiting_sp(cursor->memory, cursor->sp);
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_interrupted(rules_cursor *cursor, const onstack_go_frame *frame) {
  /* push rbp; mov rbp, rsp: from the fifth byte on RBP is good, whatever SP does afterwards. */
  if (!frame->writes_sp || frame->depth < 8 || cursor->pc - frame->entry < 4) return rules_step_go_frame(cursor, frame);
  if (cursor->go_kind == ONSTACK_GO_BY_G && !rules_is_fp_fresh(cursor)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (!rules_enter_stack(cursor, cursor->fp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->sp = 0; /* the record may lie below: another stack */
  return rules_step_record(cursor);
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_by_record(rules_cursor *cursor) {
  uint64_t link[2];
  switch (cursor->go_kind) {
  case ONSTACK_GO_BY_G:
    /* asmcgocall calls gosave_systemstack_switch first, on the goroutine's stack: its record is at SP then. */
    return cursor->fp == cursor->sp ? rules_step_record(cursor) : rules_step_waiting(cursor);
  case ONSTACK_GO_BY_FP:
    /* Its record is on the other stack, which nobody moves while this one runs. */
    if (!rules_enter_stack(cursor, cursor->fp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
    cursor->sp = 0;
    break;
  case ONSTACK_GO_CROSSCALL2:
    /* It saves RBP twice (runtime/cgo/asm_amd64.s): RBP points one word below its record, at a link to it. */
    if (onstack_memory_read_pair(cursor->memory, cursor->fp, link) && link[0] == cursor->fp + 8) cursor->fp += 8;
    break;
  default:
    break;
  }
  return rules_step_record(cursor);
}

static ONSTACK_HANDLER onstack_truncation rules_leave_injected(rules_cursor *cursor) {
  cursor->exact = true;
  return RULES_STEP_OK;
}

#endif
