/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sampler/unwind/rules_arch.h for aarch64: native code. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_NATIVE_AARCH64_H
#define ONSTACK_SAMPLER_UNWIND_RULES_NATIVE_AARCH64_H

#include "sampler/unwind/rules_undescribed.h"

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

#endif
