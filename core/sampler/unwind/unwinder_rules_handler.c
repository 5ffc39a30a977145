/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unwinder `rules`: each frame by the best description of its code.
 *
 *   native code      the module's rule table, derived from .eh_frame (sampler/unwind/rules.h)
 *   Go code          frame pointers, which all Go functions with callees keep; for an interrupted Go function its pcsp
 *                    table (it may be a leaf or in a prologue); at stack switches what the runtime stores
 *                    (sampler/unwind/go_stack.h, the kinds of Go functions in sampler/unwind/code_map.h)
 *   generated code   as its source knows (platform/code_source_ops.h): by default frame pointers, as in modules without any
 *                    .eh_frame; where their chain ends there is more above
 *   assembly         without CFI in a module that has some for the rest: stubs of .plt are known by their bytes, for
 *                    anything else the walk ends: a frame pointer there is anybody's, and could skip callers
 *
 * Nothing is believed: a CFA must be aligned, rise within its stack and stay inside its bounds where they are known; a
 * return address must be code. Where that fails the walk ends with the reason. That a return address follows a call is
 * proven later (sampler/unwind/call_site_check.h); here its frame is marked when it is new.
 *
 * An address is `exact` when it was interrupted, not called from: the first one, those above a signal frame, and those
 * above Go's asyncPreempt and sigpanic. All others are return addresses, and describe the call at address - 1. In the
 * output an exact address that is not the first is written plus 1, so that one convention holds for the whole stack.
 */
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/call_site_check.h"
#include "sampler/unwind/rules_undescribed.h"
#include "sampler/unwind/rules_go.h"
#include "sampler/unwind/rules_hot.h"
#include "sampler/unwind/rules_native.h"

/* Code that is entered by other means than a call, or enters its callee by a jump (corosensei): nothing can be proven of it,
   and its frames are known by themselves. */
static ONSTACK_HANDLER bool rules_is_entered_otherwise(const rules_cursor *cursor) {
  if (cursor->go) return cursor->go_kind == ONSTACK_GO_ROOT;
  if (!cursor->rule) return false;
  const uint8_t cfa = cursor->rule->cfa;
  return cfa == ONSTACK_CFA_ROOT || cfa == ONSTACK_CFA_SIGNAL ||
         (cfa == ONSTACK_CFA_DEREF_FP && onstack_rule_is_link(cursor->rule));
}

/* Looks up what describes an address, and returns what the cache is to hold; 0: it is not code. */
static ONSTACK_HANDLER uint64_t rules_find_out(rules_cursor *cursor, uint64_t address) {
  rules_unpack(cursor, 0); /* nothing */
  cursor->go = onstack_code_find_go(address);
  if (cursor->go) {
    cursor->go_kind = onstack_code_go_kind(cursor->go, address);
    return rules_pack_go(cursor);
  }
  const onstack_modules_status status = onstack_modules_find(address, &cursor->module);
  const bool held = status == ONSTACK_MODULE_HERE;
  if (held && cursor->module.table) cursor->rule = onstack_rules_lookup(cursor->module.table, address - cursor->module.base);
  cursor->pending = held ? cursor->module.pending : status == ONSTACK_MODULES_CHANGING;
  if (held && cursor->pending) cursor->rule = onstack_described_find(address);
  if (cursor->rule) {
    cursor->pending = false;
    return (uint64_t)(uintptr_t)cursor->rule;
  }
  /* The code map is older than the loader's word: what a library that was opened a moment ago has is not generated. */
  const bool listed = onstack_code_is_executable(address, &cursor->code);
  if (!listed && !cursor->pending) return 0;
  if (!listed || cursor->pending) cursor->code.low = cursor->code.high = 0; /* not to be remembered */
  cursor->generated = status == ONSTACK_MODULE_NONE;
  cursor->described = held && cursor->module.table;
  if (cursor->pending) return RULES_PENDING;
  return cursor->generated ? RULES_GENERATED : cursor->described ? RULES_UNDESCRIBED : RULES_WITHOUT;
}

/* Finds out what describes the cursor's PC. False: it is not code at all. */
static ONSTACK_HANDLER bool rules_locate(rules_cursor *cursor) {
  cursor->unlisted = false;
  uint64_t address = cursor->exact ? cursor->pc : cursor->pc - 1;
  uint64_t value = onstack_pc_recall(address, cursor->seal);
  if (value) {
    rules_unpack(cursor, value);
  } else {
    value = rules_find_out(cursor, address);
    if (!value) return false;
    /* An interrupted address follows no call, and no return address is the same: that would be inside a call. */
    if (!cursor->exact && !rules_is_entered_otherwise(cursor)) value |= ONSTACK_PC_UNPROVEN;
    /* What is so only because a map is being written at this moment is not remembered. */
    const bool by_range = value < RULES_GO_FIRST << 1;
    cursor->unlisted = by_range && cursor->missed;
    if (!by_range || (!cursor->missed && address - cursor->code.low < cursor->code.high - cursor->code.low))
      onstack_pc_remember(address, value, cursor->seal);
  }
  cursor->unproven = value & ONSTACK_PC_UNPROVEN && !cursor->exact;
  return true;
}

static ONSTACK_HANDLER onstack_truncation rules_step_go(rules_cursor *cursor) {
  bool interrupts = cursor->go_kind == ONSTACK_GO_EXACT;
  if (cursor->go_kind == ONSTACK_GO_SCHEDULES) cursor->scheduled = true;
  onstack_truncation why = cursor->exact ? rules_step_go_exact(cursor) : rules_step_go_called(cursor);
  if (interrupts && why == RULES_STEP_OK) why = rules_leave_injected(cursor);
  return why;
}

/* One frame up; *how: by what (ONSTACK_BY_*). */
static ONSTACK_HANDLER onstack_truncation rules_step(rules_cursor *cursor, uint8_t *how) {
  if (cursor->go) {
    *how = ONSTACK_BY_GO;
    return rules_step_go(cursor);
  }
  *how = cursor->rule ? ONSTACK_BY_RULES : ONSTACK_BY_RECORD;
  if (cursor->fp_unknown) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (cursor->pending) return ONSTACK_TRUNCATED_PENDING;
  return cursor->rule ? rules_step_native(cursor) : rules_step_undescribed(cursor);
}

static ONSTACK_HANDLER void rules_begin(rules_cursor *cursor, const onstack_walk *walk) {
  const onstack_registers *registers = walk->registers;
  cursor->memory = walk->memory;
  cursor->pc = registers->pc;
  cursor->sp = registers->sp;
  cursor->fp = registers->fp;
  cursor->bx = registers->reserved[ONSTACK_REGISTER_RBX];
  cursor->lr = onstack_address_strip(registers->lr);
  cursor->exact = true;
  cursor->low = registers->sp;
  cursor->switches = 0;
  cursor->scheduled = false;
  cursor->by_table = false;
  cursor->fp_unknown = false;
  /* Before any rule is looked up; pairs with sampler/modules/modules.c. */
  cursor->seal = onstack_pc_seal(onstack_observe(&onstack_pc_epoch));
  cursor->module.low = cursor->module.high = 0;
  cursor->module.table = NULL;
  cursor->code.low = cursor->code.high = 0;
  cursor->context = walk->ucontext;
  cursor->unproven = cursor->missed = cursor->unlisted = false;
}

/*
 * The interrupted PC lies in no range that is known. It runs, so the map is older than the code, and than its neighbours:
 * whatever could be code is taken for it, and the consumer asks the next map, before it proves the calls.
 */
static ONSTACK_HANDLER void rules_begin_in_new_code(rules_cursor *cursor) {
  if (!cursor->memory->copy_works || onstack_load_relaxed(&onstack_code.count) >= ONSTACK_CODE_RANGES) return;
  cursor->code = (onstack_code_range){ONSTACK_ADDRESS_LOW, ONSTACK_ADDRESS_HIGH};
  cursor->generated = cursor->missed = true;
  onstack_store_relaxed(&onstack_code.missed, 1u);
}

static ONSTACK_HANDLER onstack_walk_result rules_run(const onstack_walk *walk) {
  rules_cursor cursor;
  uint32_t count = 1;
  uint8_t how;
  onstack_truncation why;
  rules_begin(&cursor, walk);
  walk->frames[0] = cursor.pc;
  if (!rules_locate(&cursor)) rules_begin_in_new_code(&cursor); /* wherever the PC is, it is recorded */
  for (;;) {
    count = rules_run_hot(&cursor, walk, count);
    why = rules_step(&cursor, &how);
    if (why != RULES_STEP_OK || cursor.pc == 0) break;
    cursor.context = NULL;
    if (cursor.pc & ONSTACK_ARCH_CODE_ALIGN || !onstack_address_plausible(cursor.pc) || !rules_locate(&cursor)) {
      why = ONSTACK_TRUNCATED_BAD_RETURN;
      break;
    }
    if (count == walk->capacity) {
      why = ONSTACK_TRUNCATED_DEPTH;
      break;
    }
    if (cursor.unproven) how |= ONSTACK_BY_UNPROVEN;
    if (cursor.unlisted) how |= ONSTACK_BY_UNLISTED;
    if (walk->unwound_by) walk->unwound_by[count - 1] = how;
    /* What stands right above an interrupted address was not called: the kernel's trampoline has no rule on arm64. */
    if (walk->unwound_by && cursor.exact && count > 1) walk->unwound_by[count - 2] &= (uint8_t)~ONSTACK_BY_UNPROVEN;
    walk->frames[count++] = cursor.exact ? cursor.pc + 1 : cursor.pc;
  }
  return (onstack_walk_result){count, why == RULES_STEP_ROOT ? ONSTACK_TRUNCATED_NOT : why};
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_rules = {"rules", true, true, 640, rules_run};
