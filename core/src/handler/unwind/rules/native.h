/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules.c for code that .eh_frame describes; included there and nowhere else. */
#ifndef ONSTACK_HANDLER_UNWIND_RULES_NATIVE_H
#define ONSTACK_HANDLER_UNWIND_RULES_NATIVE_H

#include "handler/unwind/rules/cursor.h"

/*
 * The kernel's signal frame, which the trampoline finds at SP: the interrupted registers.
 *   x86_64: struct ucontext (arch/x86/include/uapi/asm/ucontext.h): gregs from 40 on: 10 RBP, 11 RBX, 15 RSP, 16 RIP
 *   aarch64: siginfo (128), then ucontext: mcontext at 176: fault_address, x0 .. x30, sp, pc
 */
static ONSTACK_HANDLER onstack_truncation rules_step_signal(rules_cursor *cursor) {
  uint64_t frame[2], code[2];
#if defined(__x86_64__)
  if (!onstack_memory_read_pair(cursor->memory, cursor->sp + 40 + 8 * 10, frame) ||
      !onstack_memory_read_pair(cursor->memory, cursor->sp + 40 + 8 * 15, code))
    return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->bx = frame[1];
#else
  uint64_t registers = cursor->sp + 128 + 176 + 8;
  if (!onstack_memory_read_pair(cursor->memory, registers + 8 * 29, frame) ||
      !onstack_memory_read_pair(cursor->memory, registers + 8 * 31, code))
    return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->lr = onstack_address_strip(frame[1]);
#endif
  cursor->fp = frame[0];
  cursor->sp = code[0];
  cursor->pc = code[1];
  cursor->exact = true;
  return rules_enter_stack(cursor, cursor->sp) ? RULES_STEP_OK : ONSTACK_TRUNCATED_NOT_RISING;
}

/* A general register of the interrupted code by its DWARF number, from the kernel's frame (offsets as above). */
static ONSTACK_HANDLER bool rules_read_register(const rules_cursor *cursor, uint32_t number, uint64_t *value) {
#if defined(__x86_64__)
  /* System V ABI AMD64, figure 3.36 -> gregs (arch/x86/include/uapi/asm/sigcontext.h: r8 .. r15, di, si, bp, bx, dx, ax,
     cx, sp) */
  static const uint8_t places[16] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7};
  if (!cursor->context || number >= ONSTACK_COUNT_OF(places)) return false;
  *value = ((const uint64_t *)((const uint8_t *)cursor->context + 40))[places[number]];
#else
  if (!cursor->context || number > 30) return false;
  *value = ((const uint64_t *)((const uint8_t *)cursor->context + 176 + 8))[number];
#endif
  return true;
}

static ONSTACK_HANDLER onstack_truncation rules_find_cfa(rules_cursor *cursor, uint64_t *cfa) {
  const onstack_rule *rule = cursor->rule;
  uint64_t offset = (uint64_t)(int64_t)rule->cfa_offset;
  switch (rule->cfa) {
  case ONSTACK_CFA_SP:
    *cfa = cursor->sp + offset;
    break;
  case ONSTACK_CFA_FP:
    *cfa = cursor->fp + offset;
    break;
  case ONSTACK_CFA_BX:
    *cfa = cursor->bx + offset;
    break;
  case ONSTACK_CFA_DEREF_FP:
    if (!rules_read(cursor->memory, cursor->fp + offset, cfa)) return ONSTACK_TRUNCATED_UNREADABLE;
    break;
  case ONSTACK_CFA_DEREF_SP:
    if (!rules_read(cursor->memory, cursor->sp + offset, cfa)) return ONSTACK_TRUNCATED_UNREADABLE;
    *cfa += (uint64_t)rule->after * 8;
    break;
  case ONSTACK_CFA_REGISTER:
    if (!rules_read_register(cursor, rule->after, cfa)) return ONSTACK_TRUNCATED_UNREADABLE;
    *cfa += offset;
    break;
  default: /* ONSTACK_CFA_PLT */
    *cfa = cursor->sp + ((cursor->pc & 15) >= offset ? 16 : 8);
  }
  return rules_check_cfa(cursor, *cfa);
}

/* Return address and frame pointer of the caller; neighbours in memory nearly always. */
static ONSTACK_HANDLER bool rules_read_caller(rules_cursor *cursor, uint64_t cfa, uint64_t *ra, uint64_t *fp) {
  const onstack_rule *rule = cursor->rule;
  uint64_t ra_at = cfa + (uint64_t)((int64_t)rule->ra * 8);
  uint64_t pair[2];
  *fp = cursor->fp;
  if (rule->ra == ONSTACK_AT_SAME) {
    if (!cursor->exact) return false; /* the link register is known for an interrupted frame only */
    *ra = cursor->lr;
  } else if (!onstack_memory_read_pair(cursor->memory, ra_at - 8, pair)) {
    return false;
  } else {
    *ra = pair[1];
    if (rule->fp == rule->ra - 1) *fp = pair[0];
  }
  if (rule->fp == ONSTACK_AT_SAME || (rule->ra != ONSTACK_AT_SAME && rule->fp == rule->ra - 1)) return true;
  if (rule->fp == ONSTACK_AT_FP) return rules_read(cursor->memory, cursor->fp, fp);
  return rules_read(cursor->memory, cfa + (uint64_t)((int64_t)rule->fp * 8), fp);
}

static ONSTACK_HANDLER onstack_truncation rules_step_native(rules_cursor *cursor) {
  const onstack_rule *rule = cursor->rule;
  uint64_t cfa, ra, fp, bx = cursor->bx;
  if (rule->cfa == ONSTACK_CFA_ROOT) return RULES_STEP_ROOT;
  if (rule->cfa == ONSTACK_CFA_SIGNAL) return rules_step_signal(cursor);
  if (rule->cfa == ONSTACK_CFA_LOST) return ONSTACK_TRUNCATED_UNREADABLE;
  onstack_truncation why = rules_find_cfa(cursor, &cfa);
  if (why != RULES_STEP_OK) return why;
  if (!rules_read_caller(cursor, cfa, &ra, &fp)) return ONSTACK_TRUNCATED_UNREADABLE;
#if defined(__x86_64__)
  if (rule->bx != ONSTACK_AT_SAME && !rules_read(cursor->memory, cfa + (uint64_t)((int64_t)rule->bx * 8), &bx))
    return ONSTACK_TRUNCATED_UNREADABLE;
#endif
  cursor->sp = cfa;
  cursor->fp = fp;
  cursor->bx = bx;
  cursor->pc = onstack_address_strip(ra);
  cursor->exact = false;
  return RULES_STEP_OK;
}

#endif
