/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unwinder `rules`: each frame by the best description of its code.
 *
 *   native code      the module's rule table, derived from .eh_frame (handler/rules.h)
 *   Go code          frame pointers, which all Go functions with callees keep; for an interrupted Go function its pcsp
 *                    table (it may be a leaf or in a prologue); at stack switches what the runtime stores
 *                    (handler/go_stack.h, the treatments in handler/code_map.h)
 *   anything else    (JIT code, assembly without CFI) frame pointers
 *
 * Nothing is believed: a CFA must be aligned, rise within its stack and stay inside its bounds where they are known; a
 * return address must be code. Where that fails the walk ends with the reason.
 *
 * An address is `exact` when it was interrupted, not called from: the first one, those above a signal frame, and those
 * above Go's asyncPreempt and sigpanic. All others are return addresses, and describe the call at address - 1. In the
 * output an exact address that is not the first is written plus 1, so that one convention holds for the whole stack.
 */
#include "handler/pc_cache.h"
#include "handler/rules_go.h"

/* What the PC cache holds: the address of a rule, or for Go code its runtime and treatment in a number below 2^16. */
static ONSTACK_HANDLER uint64_t rules_pack_go(const onstack_go_runtime *go, uint32_t treatment) {
  return ((uint64_t)(go - onstack_code.go) << 8 | treatment) + 1;
}

static ONSTACK_HANDLER bool rules_recall(rules_cursor *cursor, uint64_t address) {
  uint64_t value = onstack_pc_recall(address, cursor->epoch);
  if (value == 0) return false;
  if (value > 0xffff) {
    cursor->rule = (const onstack_rule *)(uintptr_t)value;
    return true;
  }
  cursor->go = &onstack_code.go[(value - 1) >> 8];
  cursor->treatment = (uint32_t)((value - 1) & 0xff);
  return true;
}

/* Finds out what describes the cursor's PC. False: it is not code at all. */
static ONSTACK_HANDLER bool rules_locate(rules_cursor *cursor) {
  uint64_t address = cursor->exact ? cursor->pc : cursor->pc - 1;
  cursor->rule = NULL;
  cursor->go = NULL;
  if (rules_recall(cursor, address)) return true;
  cursor->go = onstack_code_find_go(address);
  if (cursor->go) {
    cursor->treatment = onstack_code_go_treatment(cursor->go, address);
    onstack_pc_remember(address, rules_pack_go(cursor->go, cursor->treatment), cursor->epoch);
    return true;
  }
  cursor->rule = onstack_rules_find(address, &cursor->module);
  if (!cursor->rule) return onstack_code_is_executable(address, &cursor->code);
  onstack_pc_remember(address, (uint64_t)(uintptr_t)cursor->rule, cursor->epoch);
  return true;
}

static ONSTACK_HANDLER onstack_truncation rules_step(rules_cursor *cursor) {
  if (!cursor->go && cursor->fp_unknown) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (!cursor->go && cursor->rule) return rules_step_native(cursor);
  if (!cursor->go) return rules_step_untold(cursor);
  bool interrupts = cursor->treatment == ONSTACK_GO_EXACT;
  if (cursor->treatment == ONSTACK_GO_SCHEDULES) cursor->scheduled = true;
  onstack_truncation why = cursor->exact ? rules_step_go_exact(cursor) : rules_step_go_called(cursor);
#if defined(__aarch64__)
  if (interrupts && why == RULES_STEP_OK) why = rules_leave_injected(cursor);
#else
  if (interrupts) cursor->exact = true;
#endif
  return why;
}

static ONSTACK_HANDLER onstack_walk_result rules_run(const onstack_walk *walk) {
  const onstack_registers *registers = walk->registers;
  rules_cursor cursor;
  uint32_t count = 1;
  cursor.memory = walk->memory;
  cursor.pc = registers->pc;
  cursor.sp = registers->sp;
  cursor.fp = registers->fp;
  cursor.bx = registers->bx;
  cursor.lr = onstack_address_strip(registers->lr);
  cursor.exact = true;
  cursor.switches = 0;
  cursor.scheduled = false;
  cursor.by_table = false;
  cursor.fp_unknown = false;
  cursor.epoch = onstack_observe(&onstack_pc_epoch); /* before any rule is looked up; pairs with control/modules.c */
  cursor.module.low = cursor.module.high = 0;
  cursor.code.low = cursor.code.high = 0;
  walk->frames[0] = registers->pc;
  rules_locate(&cursor); /* wherever the PC is, it is recorded */
  for (;;) {
    onstack_truncation why = rules_step(&cursor);
    if (why == RULES_STEP_ROOT || (why == RULES_STEP_OK && cursor.pc == 0))
      return (onstack_walk_result){count, ONSTACK_TRUNCATED_NOT};
    if (why != RULES_STEP_OK) return (onstack_walk_result){count, why};
    if (cursor.pc & RULES_CODE_ALIGN || !onstack_address_plausible(cursor.pc) || !rules_locate(&cursor))
      return (onstack_walk_result){count, ONSTACK_TRUNCATED_BAD_RETURN};
    if (count == walk->capacity) return (onstack_walk_result){count, ONSTACK_TRUNCATED_DEPTH};
    walk->frames[count++] = cursor.exact ? cursor.pc + 1 : cursor.pc;
  }
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_rules = {"rules", true, true, 640, rules_run};
