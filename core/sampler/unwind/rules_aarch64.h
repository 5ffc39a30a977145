/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules_handler.c for aarch64; included there and nowhere else. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_AARCH64_H
#define ONSTACK_SAMPLER_UNWIND_RULES_AARCH64_H

#include "sampler/unwind/rules_cursor.h"

/* ---- native code --------------------------------------------------------------------------------------------------------- */

/*
 * The kernel's signal frame, which the trampoline finds at SP: siginfo (128), then ucontext with the mcontext at 176:
 * fault_address, x0 .. x30, sp, pc.
 */
static ONSTACK_HANDLER onstack_truncation rules_step_signal(rules_cursor *cursor) {
  uint64_t frame[2], code[2];
  uint64_t registers = cursor->sp + 128 + 176 + 8;
  if (!onstack_memory_read_pair(cursor->memory, registers + 8 * 29, frame) ||
      !onstack_memory_read_pair(cursor->memory, registers + 8 * 31, code))
    return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->lr = onstack_address_strip(frame[1]);
  cursor->fp = frame[0];
  cursor->sp = code[0];
  cursor->pc = code[1];
  cursor->exact = true;
  return rules_enter_stack(cursor, cursor->sp) ? RULES_STEP_OK : ONSTACK_TRUNCATED_NOT_RISING;
}

static ONSTACK_HANDLER bool rules_read_register(const rules_cursor *cursor, uint32_t number, uint64_t *value) {
  if (!cursor->context || number > 30) return false;
  *value = ((const uint64_t *)((const uint8_t *)cursor->context + 176 + 8))[number];
  return true;
}

/* An instruction, which may lie in memory that somebody unmaps. */
static ONSTACK_HANDLER bool rules_read_code(const rules_cursor *cursor, uint64_t pc, uint32_t *code) {
  uint64_t pair[2];
  if (pc & 3 || !onstack_memory_read_pair(cursor->memory, pc & ~(uint64_t)7, pair)) return false;
  *code = (uint32_t)(pair[0] >> (pc & 4) * 8);
  return true;
}

/*
 * The kernel's trampoline has no CFI on arm64 (arch/arm64/kernel/vdso/sigreturn.S says why), and a libc may bring its
 * own: it is known by its two instructions, mov x8, #139; svc #0, as in libgcc. They are read only where SP may point at
 * the kernel's frame, so other code without CFI costs little: uc_flags and uc_link, behind the siginfo (which is written
 * for SA_SIGINFO only), are zero.
 */
static ONSTACK_HANDLER bool rules_is_trampoline(const rules_cursor *cursor) {
  uint64_t info[2];
  uint32_t code, next;
  if (!onstack_memory_read_pair(cursor->memory, cursor->sp + 128, info) || info[0] != 0 || info[1] != 0) return false;
  if (!rules_read_code(cursor, cursor->pc, &code)) return false;
  if (cursor->exact && code == 0xd4000001u) return rules_read_code(cursor, cursor->pc - 4, &code) && code == 0xd2801168u;
  return code == 0xd2801168u && rules_read_code(cursor, cursor->pc + 4, &next) && next == 0xd4000001u;
}

/*
 * Linkers write no CFI for .plt and for branch veneers on arm64. Which instruction of
 *   adrp x16, page; ldr x17, [x16, #n]; add x16, x16, #n; br x17 (or br x16)
 * `code` is; -1: none. None of them moves SP or LR.
 */
static ONSTACK_HANDLER int rules_plt_place(uint32_t code) {
  if ((code & 0x9f00001fu) == 0x90000010u) return 0;
  if ((code & 0xffc003ffu) == 0xf9400211u) return 1;
  if ((code & 0xffc003ffu) == 0x91000210u) return 2;
  return (code & 0xffffffdfu) == 0xd61f0200u ? 3 : -1;
}

/* To the caller of an interrupted stub. False: it is none. */
static ONSTACK_HANDLER bool rules_step_plt(rules_cursor *cursor) {
  uint32_t code, before;
  if (!cursor->exact || !rules_read_code(cursor, cursor->pc, &code)) return false;
  bool entry = code == 0xd503245fu || code == 0xa9bf7bf0u; /* bti c; the first of .plt: stp x16, x30, [sp, #-16]! */
  int place = rules_plt_place(code);
  if (!entry && place < 0) return false;
  if (!entry && rules_read_code(cursor, cursor->pc - 4 * (uint64_t)(place + 1), &before) && before == 0xa9bf7bf0u)
    cursor->sp += 16;
  cursor->pc = cursor->lr;
  cursor->exact = false;
  return true;
}

/*
 * An interrupted function of another module than LR: it has not called anything, or LR would be in it, so the caller is
 * in LR. That is the vDSO, whose functions have neither CFI nor frames on arm64. False: LR says nothing.
 */
static ONSTACK_HANDLER bool rules_step_foreign_leaf(rules_cursor *cursor) {
  onstack_code_range here = {0, 0};
  uint64_t record[2];
  if (!cursor->exact || !onstack_code_is_executable(cursor->pc, &here)) return false;
  if (here.low == here.high || cursor->lr - here.low < here.high - here.low) return false;
  /* A frame that is linked already tells the same caller, and its frame pointer. */
  if (onstack_memory_read_pair(cursor->memory, cursor->fp, record) && onstack_address_strip(record[1]) == cursor->lr)
    return false;
  cursor->pc = cursor->lr;
  cursor->exact = false;
  return true;
}

#define RULES_STP_MASK 0xffc07fffu
#define RULES_STP_FP_LR 0xa9807bfdu /* stp x29, x30, [sp, #-n]! */
#define RULES_MOV_FP_SP 0x910003fdu /* mov x29, sp */
#define RULES_PACIASP 0xd503233fu
#define RULES_RET 0xd65f03c0u
#define RULES_RETAA 0xd65f0bffu

/*
 * To the caller of an interrupted function that has no frame yet, or none any more: the frame pointer is its caller's, so the
 * record there would skip that one. False: the function has its frame.
 */
static ONSTACK_HANDLER bool rules_step_edge(rules_cursor *cursor) {
  uint64_t words;
  onstack_code_range range = {0, 0};
  const uint64_t at = cursor->pc - 4;
  if (!cursor->exact || !cursor->memory->copy_works || !onstack_address_plausible(cursor->lr) ||
      !onstack_code_is_known(cursor->lr - 1, &range))
    return false;
  if (onstack_memory_copy_many(&at, 1, &words) == 0) return false;
  const uint32_t before = (uint32_t)words, code = (uint32_t)(words >> 32);
  if (code == RULES_MOV_FP_SP && (before & RULES_STP_MASK) == RULES_STP_FP_LR)
    cursor->sp += 8 * (128 - (before >> 15 & 127)); /* its immediate is negative */
  else if ((code & RULES_STP_MASK) != RULES_STP_FP_LR && code != RULES_PACIASP && code != RULES_RET && code != RULES_RETAA)
    return false;
  cursor->pc = cursor->lr;
  cursor->exact = false;
  return true;
}

/* Native code that no rule describes. */
static ONSTACK_HANDLER onstack_truncation rules_step_undescribed(rules_cursor *cursor) {
  if (rules_is_trampoline(cursor)) return rules_step_signal(cursor);
  if (rules_step_plt(cursor) || rules_step_foreign_leaf(cursor)) return RULES_STEP_OK;
  if (cursor->described && cursor->exact) return ONSTACK_TRUNCATED_NO_RULE;
  return rules_step_edge(cursor) ? RULES_STEP_OK : rules_step_by_frame_pointer(cursor);
}

/* ---- Go code ------------------------------------------------------------------------------------------------------------- */

/*
 * A Go frame (cmd/internal/obj/arm64/obj7.go): LR is stored at SP, the caller's x29 in the word below, and x29 = SP - 8.
 *   small:  str lr, [sp, #-n]!;  stur x29, [sp, #-8];  sub x29, sp, #8
 *   large:  sub x20, sp, #n;  stp x29, lr, [x20, #-8];  mov sp, x20;  sub x29, sp, #8
 *   end:    ldur x29, [sp, #-8];  ldr lr, [sp], #n;  ret
 * So the record tells the caller's PC and x29, and pcsp the caller's SP: the record's address + 8 + depth.
 */

/* By a record on another stack. From cgocallback it leads to crosscall2, which needs its SP: the CFA by pcsp. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_switch(rules_cursor *cursor) {
  const onstack_go_runtime *go = cursor->go;
  onstack_go_frame frame;
  bool known = onstack_go_frame_at(go, cursor->exact ? cursor->pc : cursor->pc - 1, &frame);
  uint64_t sp = cursor->fp + 8;
  if (!rules_enter_stack(cursor, cursor->fp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->sp = 0;
  onstack_truncation why = rules_step_record(cursor);
  if (why == RULES_STEP_OK && known && onstack_code_go_kind(go, cursor->pc - 1) == ONSTACK_GO_CROSSCALL2)
    cursor->sp = sp + (uint64_t)frame.depth;
  return why;
}

/* crosscall2 (runtime/cgo/asm_arm64.s) keeps C's x29 and LR at the top of its frame, and has no record of its own. */
static ONSTACK_HANDLER onstack_truncation rules_step_crosscall2(rules_cursor *cursor, const onstack_go_frame *frame) {
  uint64_t pair[2];
  uint64_t cfa = cursor->sp + (uint64_t)frame->depth;
  onstack_truncation why = rules_check_cfa(cursor, cfa);
  if (why != RULES_STEP_OK) return why;
  if (cursor->exact && onstack_code_go_kind(cursor->go, cursor->lr - 1) != ONSTACK_GO_CROSSCALL2) {
    cursor->pc = cursor->lr; /* it has not called yet, or has loaded them back */
  } else {
    if (!onstack_memory_read_pair(cursor->memory, cfa - 16, pair)) return ONSTACK_TRUNCATED_UNREADABLE;
    cursor->fp = pair[0];
    cursor->pc = onstack_address_strip(pair[1]);
  }
  cursor->sp = cfa;
  cursor->exact = false;
  return RULES_STEP_OK;
}

static ONSTACK_HANDLER onstack_truncation rules_step_crosscall2_called(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (!onstack_go_frame_at(cursor->go, cursor->pc - 1, &frame)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  return rules_step_crosscall2(cursor, &frame);
}

/* True if x29 points to the frame at SP: at its record, or at the one that a caller of duffzero and duffcopy writes two
   words below it. Otherwise it is the caller's: in a prologue, an epilogue, or on another stack. */
static ONSTACK_HANDLER bool rules_go_is_linked(const rules_cursor *cursor) { return cursor->sp - cursor->fp - 8 <= 16; }

/* Inside morestack on the goroutine's stack: x3 holds who called the function that LR returns to, and that function has
   no frame yet. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_grower(rules_cursor *cursor) {
  uint64_t caller;
  if (!rules_read_register(cursor, 3, &caller)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->pc = cursor->lr;
  cursor->lr = onstack_address_strip(caller);
  cursor->by_table = true;
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* In mcall, morestack or gogo before the change of stacks. LR is the caller's until they call save_g. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_leaving(rules_cursor *cursor) {
  bool called = onstack_code_go_kind(cursor->go, cursor->lr - 1) == cursor->go_kind;
  if (cursor->go_kind == ONSTACK_GO_GROWS) return called ? rules_step_growing(cursor) : rules_step_go_grower(cursor);
  if (called) return cursor->go_kind == ONSTACK_GO_LEAVES ? RULES_STEP_ROOT : ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->pc = cursor->lr;
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* No frame: the caller is in LR. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_leaf(rules_cursor *cursor) {
  uint64_t link[2];
  if (cursor->go_kind == ONSTACK_GO_GROWS || cursor->go_kind == ONSTACK_GO_LEAVES || cursor->go_kind == ONSTACK_GO_RESUMES)
    return rules_step_go_leaving(cursor);
  /* In duffzero or duffcopy: x29 is at the caller's second record, whose link leads to the first. */
  if (cursor->sp - cursor->fp == 24 && onstack_memory_read_pair(cursor->memory, cursor->fp, link) &&
      link[0] == cursor->sp - 8)
    cursor->fp = link[0];
  cursor->pc = cursor->lr;
  cursor->exact = false;
  return RULES_STEP_OK;
}

/*
 * Interrupted in asmcgocall between its first change of SP and the return of its frame pointer
 * (sampler/modules/go_layout_aarch64.c has cut out these ranges). Up to the call of C the goroutine's SP is in x2, behind it
 * in what was stored, and at the end in SP.
 */
static ONSTACK_HANDLER onstack_truncation rules_step_asmcgocall_exact(rules_cursor *cursor) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  uint64_t sp, pair[2];
  if (!special || special->switch_at == 0) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (cursor->pc - special->body.low > special->switch_at) {
    sp = onstack_go_waiting_sp(cursor->memory, cursor->sp);
    if (sp == 0) sp = cursor->sp;
  } else if (!rules_read_register(cursor, 2, &sp)) {
    return ONSTACK_TRUNCATED_STACK_SWITCH;
  }
  if (sp != cursor->sp && !rules_enter_stack(cursor, sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (!onstack_memory_read_pair(cursor->memory, sp - 8, pair)) return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->sp = sp + 16;
  cursor->fp = pair[0];
  cursor->pc = onstack_address_strip(pair[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* An interrupted Go function: what pcsp says about this very instruction. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_interrupted(rules_cursor *cursor, const onstack_go_frame *frame) {
  uint64_t pair[2];
  if (cursor->go_kind == ONSTACK_GO_CROSSCALL2) return rules_step_crosscall2(cursor, frame);
  if (frame->depth == 0) return rules_step_go_leaf(cursor);
  if (cursor->go_kind == ONSTACK_GO_BY_G) return rules_step_asmcgocall_exact(cursor);
  uint64_t cfa = cursor->sp + (uint64_t)frame->depth;
  onstack_truncation why = rules_check_cfa(cursor, cfa);
  if (why != RULES_STEP_OK) return why;
  if (!onstack_memory_read_pair(cursor->memory, cursor->sp - 8, pair)) return ONSTACK_TRUNCATED_UNREADABLE;
  bool linked = rules_go_is_linked(cursor);
  /* Prologue: str lr, [sp, #-n]!; stur x29, [sp, #-8]; sub x29, sp, #8. Behind it x29 is good whatever SP does, but for
     the epilogue, which loads it back first. */
  if (frame->writes_sp && !linked && cursor->pc - frame->entry > 8 && pair[0] != cursor->fp)
    return rules_step_go_switch(cursor);
  if (linked) cursor->fp = pair[0];
  cursor->sp = cfa;
  cursor->pc = onstack_address_strip(pair[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

/*
 * SP is a multiple of 16, so records lie at 8 beyond one. asmcgocall on a system stack stores its SP over its caller's
 * saved x29 (nosave in runtime/asm_arm64.s) and gives that back: one word below the caller's record.
 */
static ONSTACK_HANDLER void rules_go_repair_fp(rules_cursor *cursor) {
  if ((cursor->fp & 15) == 0 && cursor->fp != 0) cursor->fp += 8;
}

/* Where a signal handler of Go's makes a function call asyncPreempt or sigpanic, it pushes LR first (pushCall and
   preparePanic in runtime/signal_arm64.go, 16 bytes). The cursor comes from a called asyncPreempt. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_injected(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (!onstack_go_frame_at(cursor->go, cursor->pc - 1, &frame)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  uint64_t cfa = cursor->fp + 8 + (uint64_t)frame.depth;
  onstack_truncation why = rules_step_record(cursor);
  cursor->sp = cfa;
  return why;
}

/* To what the function was made to call: its LR and SP as they were. */
static ONSTACK_HANDLER onstack_truncation rules_leave_injected(rules_cursor *cursor) {
  uint64_t pair[2];
  if (!onstack_memory_read_pair(cursor->memory, cursor->sp, pair)) return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->lr = onstack_address_strip(pair[0]);
  cursor->sp += 16;
  cursor->exact = true;
  return RULES_STEP_OK;
}

/* A caller on a goroutine whose stack is being moved. Depth 0 is the one that called morestack, before it made a frame. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_by_table(rules_cursor *cursor) {
  onstack_go_frame frame;
  uint64_t pair[2];
  if (!onstack_go_frame_at(cursor->go, cursor->pc - 1, &frame) || frame.writes_sp) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (frame.depth == 0) {
    if (cursor->lr == 0) return ONSTACK_TRUNCATED_STACK_SWITCH;
    cursor->pc = cursor->lr;
    cursor->lr = 0;
    return RULES_STEP_OK;
  }
  uint64_t cfa = cursor->sp + (uint64_t)frame.depth;
  onstack_truncation why = rules_check_cfa(cursor, cfa);
  if (why != RULES_STEP_OK) return why;
  if (!onstack_memory_read_pair(cursor->memory, cursor->sp - 8, pair)) return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->sp = cfa;
  cursor->fp = pair[0];
  cursor->fp_unknown = false;
  cursor->pc = onstack_address_strip(pair[1]);
  return RULES_STEP_OK;
}

/* An instruction that pcsp has no entry for. What asyncPreempt's caller needs is not in its record alone. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_undescribed(rules_cursor *cursor) {
  return cursor->go_kind == ONSTACK_GO_EXACT ? ONSTACK_TRUNCATED_STACK_SWITCH : rules_step_record(cursor);
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_by_record(rules_cursor *cursor) {
  rules_go_repair_fp(cursor);
  switch (cursor->go_kind) {
  case ONSTACK_GO_BY_G:
    return rules_step_waiting(cursor);
  case ONSTACK_GO_BY_FP:
    return rules_step_go_switch(cursor);
  case ONSTACK_GO_CROSSCALL2:
    return rules_step_crosscall2_called(cursor);
  case ONSTACK_GO_EXACT:
    return rules_step_go_injected(cursor);
  default:
    return rules_step_record(cursor);
  }
}

#endif
