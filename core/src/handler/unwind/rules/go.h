/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules.c for Go code; included there and nowhere else. */
#ifndef ONSTACK_HANDLER_UNWIND_RULES_GO_H
#define ONSTACK_HANDLER_UNWIND_RULES_GO_H

#include "handler/unwind/go_stack.h"
#include "handler/unwind/rules/native.h"

/* From asmcgocall, with SP at what it stored on g0's stack, to the frame that called it on the goroutine's stack. */
static ONSTACK_HANDLER onstack_truncation rules_step_asmcgocall(rules_cursor *cursor) {
  uint64_t pair[2];
#if defined(__x86_64__)
  /* It calls gosave_systemstack_switch first, on the goroutine's stack: its record is at SP then. */
  if (cursor->fp == cursor->sp) return rules_step_record(cursor);
#endif
  uint64_t sp = onstack_go_waiting_sp(cursor->memory, cursor->sp);
  if (sp == 0 || !rules_enter_stack(cursor, sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
#if defined(__x86_64__)
  /* Its frame record is at that SP. */
  if (!onstack_memory_read_pair(cursor->memory, sp, pair)) return ONSTACK_TRUNCATED_STACK_SWITCH;
#else
  /* The return address is at that SP, the saved frame pointer in the word below (Go's frame layout on arm64). */
  if (!onstack_memory_read_pair(cursor->memory, sp - 8, pair)) return ONSTACK_TRUNCATED_STACK_SWITCH;
#endif
  cursor->sp = sp + 16;
  cursor->fp = pair[0];
  cursor->pc = onstack_address_strip(pair[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

static ONSTACK_HANDLER onstack_truncation rules_step_growing(rules_cursor *cursor);

#if defined(__aarch64__)
#include "handler/unwind/rules/aarch64.h"
#else
#include "handler/unwind/rules/x86_64.h"

/* A Go function without a pcsp table. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_untold(rules_cursor *cursor) { return rules_step_record(cursor); }

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
static ONSTACK_HANDLER onstack_truncation rules_step_go_table(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (onstack_go_frame_at(cursor->go, cursor->pc - 1, &frame) && !frame.writes_sp)
    return rules_step_go_frame(cursor, &frame);
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}
#endif

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

/* Interrupted in a function that moves to another stack: has SP changed already? */
static ONSTACK_HANDLER onstack_truncation rules_check_switch(const rules_cursor *cursor, bool *switched) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  if (!special || special->switch_at == 0) return ONSTACK_TRUNCATED_STACK_SWITCH;
  *switched = cursor->pc - special->body.low >= special->switch_at;
  return RULES_STEP_OK;
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_called(rules_cursor *cursor);

#if defined(__x86_64__)
/*
 * Interrupted in asmcgocall. C gives RBP back as it got it, while a callback may have moved the goroutine's stack: RBP
 * leads to a freed stack then. Behind the call it is believed only where it agrees with SP or with what is stored there.
 */
static ONSTACK_HANDLER bool rules_is_fp_fresh(const rules_cursor *cursor) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  if (special && cursor->pc - special->body.low <= special->switch_at) return true;
  return cursor->fp == cursor->sp || cursor->fp == onstack_go_waiting_sp(cursor->memory, cursor->sp);
}
#endif

/* An interrupted Go function: what pcsp says about this very instruction. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_exact(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (cursor->treatment == ONSTACK_GO_ROOT) return RULES_STEP_ROOT;
  if (cursor->treatment == ONSTACK_GO_LOST) return ONSTACK_TRUNCATED_STACK_SWITCH; /* either stack may be current */
  if (cursor->treatment == ONSTACK_GO_GROWS || cursor->treatment == ONSTACK_GO_LEAVES ||
      cursor->treatment == ONSTACK_GO_RESUMES) {
    bool switched;
    onstack_truncation why = rules_check_switch(cursor, &switched);
    if (why != RULES_STEP_OK) return why;
    if (switched) return rules_step_go_called(cursor);
  }
  if (!onstack_go_frame_at(cursor->go, cursor->pc, &frame)) return rules_step_go_untold(cursor);
#if defined(__x86_64__)
  /* push rbp; mov rbp, rsp: from the fifth byte on RBP is good, whatever SP does afterwards. */
  if (frame.writes_sp && frame.depth >= 8 && cursor->pc - frame.entry >= 4) {
    if (cursor->treatment == ONSTACK_GO_BY_G && !rules_is_fp_fresh(cursor)) return ONSTACK_TRUNCATED_STACK_SWITCH;
    if (!rules_enter_stack(cursor, cursor->fp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
    cursor->sp = 0; /* the record may lie below: another stack */
    return rules_step_record(cursor);
  }
#endif
  return rules_step_go_frame(cursor, &frame);
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_called(rules_cursor *cursor) {
#if defined(__x86_64__)
  uint64_t link[2];
#endif
  switch (cursor->treatment) {
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
  if (cursor->by_table && (cursor->treatment == ONSTACK_GO_PLAIN || cursor->treatment == ONSTACK_GO_EXACT))
    return rules_step_go_table(cursor);
  if (cursor->fp_unknown) return ONSTACK_TRUNCATED_STACK_SWITCH;
#if defined(__aarch64__)
  rules_go_mend_fp(cursor);
#endif
  switch (cursor->treatment) {
  case ONSTACK_GO_BY_G:
    return rules_step_asmcgocall(cursor);
#if defined(__aarch64__)
  case ONSTACK_GO_BY_FP:
    return rules_step_go_switch(cursor);
  case ONSTACK_GO_CROSSCALL2:
    return rules_step_crosscall2_called(cursor);
  case ONSTACK_GO_EXACT:
    return rules_step_go_injected(cursor);
#else
  case ONSTACK_GO_BY_FP:
    /* Its record is on the other stack, which nobody moves while this one runs. */
    if (!rules_enter_stack(cursor, cursor->fp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
    cursor->sp = 0;
    break;
  case ONSTACK_GO_CROSSCALL2:
    /* It saves RBP twice (runtime/cgo/asm_amd64.s): RBP points one word below its record, at a link to it. */
    if (onstack_memory_read_pair(cursor->memory, cursor->fp, link) && link[0] == cursor->fp + 8) cursor->fp += 8;
    break;
#endif
  default:
    break;
  }
  return rules_step_record(cursor);
}

#endif
