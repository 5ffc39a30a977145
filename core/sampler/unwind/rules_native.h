/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules_handler.c for code that .eh_frame describes; included there and nowhere else. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_NATIVE_H
#define ONSTACK_SAMPLER_UNWIND_RULES_NATIVE_H

#include "sampler/unwind/rules_arch.h"
#include "sampler/unwind/rules_cursor.h"

/*
 * Whether the caller's frame is on another stack: coroutines lead to their parent's by a link in memory, and a function that
 * calls on a stack of its choice (psm) has its frame pointer on the one that it came from.
 */
static ONSTACK_HANDLER bool rules_cfa_is_elsewhere(const rules_cursor *cursor, uint64_t cfa) {
  const onstack_memory *memory = cursor->memory;
  if (cursor->rule->cfa == ONSTACK_CFA_SP || cursor->rule->cfa == ONSTACK_CFA_PLT) return false;
  if (cfa & 7 || !onstack_address_plausible(cfa)) return false;
  if (memory->high != 0 && (cfa <= memory->low || cfa > memory->high)) return true;
  return cfa <= cursor->sp && onstack_rule_is_link(cursor->rule);
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
    *cfa += (uint64_t)rule->after * 8;
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
  if (!rules_cfa_is_elsewhere(cursor, *cfa)) return rules_check_cfa(cursor, *cfa);
  return rules_leave_stack(cursor) ? RULES_STEP_OK : ONSTACK_TRUNCATED_STACK_SWITCH;
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
  if (ONSTACK_ARCH_FOLLOWS_BX && rule->bx != ONSTACK_AT_SAME &&
      !rules_read(cursor->memory, cfa + (uint64_t)((int64_t)rule->bx * 8), &bx))
    return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->sp = cfa;
  cursor->fp = fp;
  cursor->bx = bx;
  cursor->pc = onstack_address_strip(ra);
  cursor->exact = false;
  return RULES_STEP_OK;
}

#endif
