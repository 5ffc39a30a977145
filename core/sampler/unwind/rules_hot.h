/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of unwinder_rules_handler.c for what most frames are: a return address that the PC cache knows, with a plain
 * rule or in a plain Go function, on a page that was just proven readable. It takes as many such frames as follow each
 * other, with the cursor in registers, and leaves everything else to the general step; what it does take is exactly what
 * rules_step would have taken (tests/core/test_walk_alike.c compares them). Included there and nowhere else.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_HOT_H
#define ONSTACK_SAMPLER_UNWIND_RULES_HOT_H

#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/rules_cursor.h"

/* What may be loaded: proven by this walk, and inside the bounds of the stack. */
typedef struct rules_window {
  uint64_t low, high;
} rules_window;

static ONSTACK_HANDLER rules_window rules_window_of(const onstack_memory *memory) {
  rules_window window = {memory->page_low, memory->page_high};
  if (memory->high != 0 && memory->high < window.high) window.high = memory->high;
  return window;
}

/* The word at an offset of words from the CFA; a register that is kept stays as it is. False: outside of the window. */
static inline __attribute__((always_inline)) ONSTACK_HANDLER bool rules_hot_word(rules_window window, uint64_t cfa,
                                                                                 int16_t words, uint64_t *word) {
  if (words == ONSTACK_AT_SAME) return true;
  uint64_t at = cfa + (uint64_t)((int64_t)words * 8);
  if (at < window.low || at >= window.high || window.high - at < 8) return false;
  *word = *(const volatile uint64_t *)(uintptr_t)at;
  return true;
}

typedef struct rules_hot {
  uint64_t pc, sp, fp, bx;
} rules_hot;

/* One frame up by its rule. */
static inline __attribute__((always_inline)) ONSTACK_HANDLER bool rules_hot_native(const onstack_rule *rule,
                                                                                   rules_window window, rules_hot *at) {
  uint64_t cfa = rule->cfa == ONSTACK_CFA_SP ? at->sp : at->fp, ra = 0, fp = at->fp, bx = at->bx;
  if (rule->cfa != ONSTACK_CFA_SP && rule->cfa != ONSTACK_CFA_FP) return false;
  cfa += (uint64_t)(int64_t)rule->cfa_offset;
  if (cfa & 7 || cfa <= at->sp || cfa > window.high) return false;
  if (rule->ra == ONSTACK_AT_SAME || rule->fp == ONSTACK_AT_FP) return false;
  if (!rules_hot_word(window, cfa, rule->ra, &ra) || !rules_hot_word(window, cfa, rule->fp, &fp)) return false;
  if (ONSTACK_ARCH_FOLLOWS_BX && !rules_hot_word(window, cfa, rule->bx, &bx)) return false;
  *at = (rules_hot){onstack_address_strip(ra), cfa, fp, bx};
  return true;
}

/* One frame up by the record of a plain Go function: rules_step_record. Not on arm64, where a record may have to be
   repaired first. */
static inline __attribute__((always_inline)) ONSTACK_HANDLER bool rules_hot_go(rules_window window, rules_hot *at) {
  if (ONSTACK_GO_RECORD_BELOW != 0) return false;
  uint64_t record = at->fp;
  if (record & 7 || record < at->sp || record < window.low || record >= window.high || window.high - record < 16)
    return false;
  const volatile uint64_t *words = (const volatile uint64_t *)(uintptr_t)record;
  *at = (rules_hot){words[1], record + 16, words[0], at->bx};
  return true;
}

static ONSTACK_HANDLER bool rules_is_plain_go(uint64_t value) {
  return value < RULES_PACKED && value >= RULES_GO_FIRST << 1 &&
         (((value >> 1) - RULES_GO_FIRST) & 0xff) == ONSTACK_GO_PLAIN;
}

/* What the cache holds of the cursor's place, where it can be left on this way; else 0. */
static ONSTACK_HANDLER uint64_t rules_hot_value(const rules_cursor *cursor) {
  if (cursor->fp_unknown) return 0;
  if (cursor->rule) return (uint64_t)(uintptr_t)cursor->rule;
  if (!cursor->go || cursor->go_kind != ONSTACK_GO_PLAIN || cursor->exact || cursor->by_table) return 0;
  return rules_pack_go(cursor);
}

/* Returns how many frames there are now; the cursor stands at the last of them. */
static ONSTACK_HANDLER uint32_t rules_run_hot(rules_cursor *cursor, const onstack_walk *walk, uint32_t count) {
  const rules_window window = rules_window_of(cursor->memory);
  const uint32_t before = count;
  const uint64_t seal = cursor->seal;
  uint64_t value = rules_hot_value(cursor);
  rules_hot at = {cursor->pc, cursor->sp, cursor->fp, cursor->bx};
  while (value != 0 && count < walk->capacity) {
    rules_hot next = at;
    bool native = value >= RULES_PACKED;
    if (native ? !rules_hot_native((const onstack_rule *)(uintptr_t)value, window, &next) : !rules_hot_go(window, &next))
      break;
    uint64_t found = onstack_pc_recall(next.pc - 1, seal);
    /* Unknown, to be marked, or to be left in ways of its own. */
    if (found & ONSTACK_PC_UNPROVEN || (found < RULES_PACKED && (cursor->by_table || !rules_is_plain_go(found)))) break;
    if (walk->unwound_by) walk->unwound_by[count - 1] = native ? ONSTACK_BY_RULES : ONSTACK_BY_GO;
    walk->frames[count++] = next.pc;
    at = next;
    value = found;
  }
  if (count == before) return count;
  rules_unpack(cursor, value);
  cursor->pc = at.pc;
  cursor->sp = at.sp;
  cursor->fp = at.fp;
  cursor->bx = at.bx;
  cursor->exact = false;
  cursor->unproven = false;
  cursor->context = NULL;
  return count;
}

#endif
