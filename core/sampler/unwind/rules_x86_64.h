/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules_handler.c for x86_64; included there and nowhere else. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_X86_64_H
#define ONSTACK_SAMPLER_UNWIND_RULES_X86_64_H

#include "sampler/unwind/rules_cursor.h"

/* ---- native code --------------------------------------------------------------------------------------------------------- */

/*
 * The kernel's signal frame, which the trampoline finds at SP: struct ucontext (arch/x86/include/uapi/asm/ucontext.h) with
 * gregs from 40 on: 10 RBP, 11 RBX, 15 RSP, 16 RIP.
 */
static ONSTACK_HANDLER onstack_truncation rules_step_signal(rules_cursor *cursor) {
  uint64_t frame[2], code[2];
  if (!onstack_memory_read_pair(cursor->memory, cursor->sp + 40 + 8 * 10, frame) ||
      !onstack_memory_read_pair(cursor->memory, cursor->sp + 40 + 8 * 15, code))
    return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->bx = frame[1];
  cursor->fp = frame[0];
  cursor->sp = code[0];
  cursor->pc = code[1];
  cursor->exact = true;
  return rules_enter_stack(cursor, cursor->sp) ? RULES_STEP_OK : ONSTACK_TRUNCATED_NOT_RISING;
}

/* System V ABI AMD64, figure 3.36 -> gregs (arch/x86/include/uapi/asm/sigcontext.h: r8 .. r15, di, si, bp, bx, dx, ax, cx,
   sp). */
static ONSTACK_HANDLER bool rules_read_register(const rules_cursor *cursor, uint32_t number, uint64_t *value) {
  static const uint8_t places[16] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7};
  if (!cursor->context || number >= ONSTACK_COUNT_OF(places)) return false;
  *value = ((const uint64_t *)((const uint8_t *)cursor->context + 40))[places[number]];
  return true;
}

/*
 * lld writes no CFI for .plt. The words that an interrupted stub has pushed below the return address; -1: it is no stub.
 *   entry   [endbr64] [bnd] jmp *slot(%rip)          (ff 25): none
 *           push $index (68)                         : none yet
 *           [bnd] jmp first (e9) behind the push     : one
 *   first   push link_map(%rip) (ff 35)              : one
 *           [bnd] jmp *resolver(%rip) behind it      : two
 */
static ONSTACK_HANDLER int rules_plt_pushed(const uint8_t *code) {
  const uint8_t *before = code;
  bool jump_of_first = before[-6] == 0xff && before[-5] == 0x35;
  if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) code += 4;
  if (code[0] == 0x68 && (code[5] == 0xe9 || (code[5] == 0xf2 && code[6] == 0xe9))) return 0;
  if (code[0] == 0xff && code[1] == 0x35) return 1;
  if (code[0] == 0xf2) code++;
  if (code[0] == 0xff && code[1] == 0x25) return jump_of_first ? 2 : 0;
  return code[0] == 0xe9 && before[-5] == 0x68 ? 1 : -1;
}

/* To the caller of an interrupted stub. False: it is none. */
static ONSTACK_HANDLER bool rules_step_plt(rules_cursor *cursor) {
  uint64_t code[3];
  uint64_t pair[2];
  if (!cursor->exact || !cursor->memory->copy_works) return false;
  const uint64_t at[3] = {cursor->pc - 8, cursor->pc, cursor->pc + 8};
  if (onstack_memory_copy_many(at, 3, code) < 3) return false;
  int pushed = rules_plt_pushed((const uint8_t *)&code[1]);
  if (pushed < 0) return false;
  uint64_t cfa = cursor->sp + 8 * (uint64_t)pushed + 8;
  if (rules_check_cfa(cursor, cfa) != RULES_STEP_OK) return false;
  if (!onstack_memory_read_pair(cursor->memory, cfa - 16, pair)) return false;
  cursor->sp = cfa;
  cursor->pc = pair[1];
  cursor->exact = false;
  return true;
}

static ONSTACK_HANDLER bool rules_is_move(const uint8_t *code) { /* mov %rsp,%rbp */
  return code[0] == 0x48 && ((code[1] == 0x89 && code[2] == 0xe5) || (code[1] == 0x8b && code[2] == 0xec));
}

/* A prologue's `push %rbp`, behind an endbr64 or not, and `ret`; `linked`: the `mov %rsp,%rbp` behind the push. A push without
   it may stand anywhere, where RBP is any number. A blocked thread is at a `syscall`, which may come right before the `ret`. */
static ONSTACK_HANDLER bool rules_is_edge(const uint8_t *code, bool linked) {
  if (linked) return code[-1] == 0x55 && rules_is_move(code);
  if (code[0] == 0x0f && code[1] == 0x05) return code[2] == 0xc3;
  if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) code += 4;
  if (code[0] == 0xf3) code++;
  return (code[0] == 0x55 && rules_is_move(code + 1)) || code[0] == 0xc3;
}

/*
 * To the caller of a function that has no frame yet, or none any more: the frame pointer is its caller's, so the record there
 * would skip that one. False: the function has its frame. Its code is looked at (a microsecond) only where the stack looks
 * like it, as a mere number seldom does.
 */
static ONSTACK_HANDLER bool rules_step_edge(rules_cursor *cursor) {
  uint64_t words[2];
  onstack_code_range range = {0, 0};
  if (!cursor->exact || !cursor->memory->copy_works || !onstack_memory_read_pair(cursor->memory, cursor->sp, words))
    return false;
  const bool linked = words[0] == cursor->fp;
  const uint64_t back = words[linked], cfa = cursor->sp + (linked ? 16 : 8);
  if (!onstack_address_plausible(back) || !onstack_code_is_known(back - 1, &range)) return false;
  const uint64_t at = (cursor->pc - linked) & ~(uint64_t)7; /* all bytes that are looked at are in the pair */
  if (!onstack_memory_copy_pair(at, words) || !rules_is_edge((const uint8_t *)words + (cursor->pc - at), linked))
    return false;
  if (rules_check_cfa(cursor, cfa) != RULES_STEP_OK) return false;
  cursor->sp = cfa;
  cursor->pc = back;
  cursor->exact = false;
  return true;
}

/* Native code that no rule describes. */
static ONSTACK_HANDLER onstack_truncation rules_step_undescribed(rules_cursor *cursor) {
  /* Below a call its frame pointer is the callee's to keep, and a startup routine may be the root. */
  if (!cursor->described || !cursor->exact)
    return rules_step_edge(cursor) ? RULES_STEP_OK : rules_step_by_frame_pointer(cursor);
  return rules_step_plt(cursor) ? RULES_STEP_OK : ONSTACK_TRUNCATED_NO_RULE;
}

/* ---- Go code ------------------------------------------------------------------------------------------------------------- */

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
