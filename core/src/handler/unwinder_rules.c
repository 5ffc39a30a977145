/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unwinder `rules`: each frame by the best description of its code.
 *
 *   native code      the module's rule table, derived from .eh_frame (handler/rules.h)
 *   Go code          frame pointers, which all Go functions with callees keep; for an interrupted Go function its pcsp
 *                    table (it may be a leaf or in a prologue); at stack switches what the runtime stores
 *                    (handler/go_stack.h, the treatments in handler/code_map.h)
 *   generated code   and all in modules without any .eh_frame: frame pointers
 *   assembly         without CFI in a module that has some for the rest: stubs of .plt are known by their bytes, for
 *                    anything else the walk ends: a frame pointer there is anybody's, and could skip callers
 *
 * Nothing is believed: a CFA must be aligned, rise within its stack and stay inside its bounds where they are known; a
 * return address must be code behind a call. Where that fails the walk ends with the reason.
 *
 * An address is `exact` when it was interrupted, not called from: the first one, those above a signal frame, and those
 * above Go's asyncPreempt and sigpanic. All others are return addresses, and describe the call at address - 1. In the
 * output an exact address that is not the first is written plus 1, so that one convention holds for the whole stack.
 */
#include "handler/call_site.h"
#include "handler/pc_cache.h"
#include "handler/rules_go.h"

/*
 * What the PC cache holds of an address: its rule's address, or a number below RULES_PACKED. The lowest bit says that no
 * call has been seen in front of it yet.
 */
#define RULES_UNPROVEN 1u
#define RULES_UNTOLD (1u << 1)      /* code in no module that has rules */
#define RULES_UNDESCRIBED (2u << 1) /* code without a rule in a module that has some */
#define RULES_GO_FIRST 3u           /* + index of the runtime << 8 | treatment, all << 1 */
#define RULES_PACKED 0x20000u
_Static_assert(((RULES_GO_FIRST + (ONSTACK_GO_RUNTIMES << 8)) << 1) < RULES_PACKED, "numbers and addresses are told apart");
_Static_assert(_Alignof(onstack_rule) >= 2, "the lowest bit of a rule's address is free");

static ONSTACK_HANDLER void rules_unpack(rules_cursor *cursor, uint64_t value) {
  value &= ~(uint64_t)RULES_UNPROVEN;
  if (value >= RULES_PACKED) {
    cursor->rule = (const onstack_rule *)(uintptr_t)value;
  } else if (value >= RULES_GO_FIRST << 1) {
    uint64_t go = (value >> 1) - RULES_GO_FIRST;
    cursor->go = &onstack_code.go[go >> 8];
    cursor->treatment = (uint32_t)(go & 0xff);
  } else {
    cursor->described = value == RULES_UNDESCRIBED;
  }
}

/* Code that is entered by other means than a call: nothing can be proven of it, and its frames are known by themselves. */
static ONSTACK_HANDLER bool rules_is_entered_otherwise(const rules_cursor *cursor) {
  if (cursor->go) return cursor->treatment == ONSTACK_GO_ROOT;
  return cursor->rule && (cursor->rule->cfa == ONSTACK_CFA_ROOT || cursor->rule->cfa == ONSTACK_CFA_SIGNAL);
}

/* Looks up what describes an address, and returns what the cache is to hold; 0: it is not code. */
static ONSTACK_HANDLER uint64_t rules_find_out(rules_cursor *cursor, uint64_t address) {
  cursor->go = onstack_code_find_go(address);
  if (cursor->go) {
    cursor->treatment = onstack_code_go_treatment(cursor->go, address);
    return (RULES_GO_FIRST + ((uint64_t)(cursor->go - onstack_code.go) << 8 | cursor->treatment)) << 1;
  }
  cursor->rule = onstack_rules_find(address, &cursor->module);
  if (cursor->rule) return (uint64_t)(uintptr_t)cursor->rule;
  if (!onstack_code_is_executable(address, &cursor->code)) return 0;
  cursor->described =
      cursor->module.table && address - cursor->module.low < cursor->module.high - cursor->module.low;
  return cursor->described ? RULES_UNDESCRIBED : RULES_UNTOLD;
}

/* Finds out what describes the cursor's PC, the walk's frame `count`. False: it is not code at all. */
static ONSTACK_HANDLER bool rules_locate(rules_cursor *cursor, uint32_t count) {
  uint64_t address = cursor->exact ? cursor->pc : cursor->pc - 1;
  cursor->rule = NULL;
  cursor->go = NULL;
  cursor->described = false;
  uint64_t value = onstack_pc_recall(address, cursor->epoch);
  if (value) {
    rules_unpack(cursor, value);
  } else {
    value = rules_find_out(cursor, address);
    if (!value) return false;
    /* An interrupted address follows no call, and no return address is the same: that would be inside a call. */
    if (!cursor->exact && !rules_is_entered_otherwise(cursor)) value |= RULES_UNPROVEN;
    /* An address that is code only because the map is being written at this moment is not remembered. */
    if (value >= RULES_GO_FIRST << 1 || address - cursor->code.low < cursor->code.high - cursor->code.low)
      onstack_pc_remember(address, value, cursor->epoch);
  }
  if (value & RULES_UNPROVEN && !cursor->exact && cursor->unproven == 0) cursor->unproven = count;
  return true;
}

static ONSTACK_HANDLER onstack_truncation rules_step_go(rules_cursor *cursor) {
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

/* One frame up; *how: by what (ONSTACK_BY_*). */
static ONSTACK_HANDLER onstack_truncation rules_step(rules_cursor *cursor, uint8_t *how) {
  if (cursor->go) {
    *how = ONSTACK_BY_GO;
    return rules_step_go(cursor);
  }
  *how = cursor->rule ? ONSTACK_BY_RULES : ONSTACK_BY_RECORD;
  if (cursor->fp_unknown) return ONSTACK_TRUNCATED_STACK_SWITCH;
  return cursor->rule ? rules_step_native(cursor) : rules_step_untold(cursor);
}

static ONSTACK_HANDLER void rules_begin(rules_cursor *cursor, const onstack_walk *walk) {
  const onstack_registers *registers = walk->registers;
  cursor->memory = walk->memory;
  cursor->pc = registers->pc;
  cursor->sp = registers->sp;
  cursor->fp = registers->fp;
  cursor->bx = registers->bx;
  cursor->lr = onstack_address_strip(registers->lr);
  cursor->exact = true;
  cursor->switches = 0;
  cursor->scheduled = false;
  cursor->by_table = false;
  cursor->fp_unknown = false;
  cursor->epoch = onstack_observe(&onstack_pc_epoch); /* before any rule is looked up; pairs with control/modules.c */
  cursor->module.low = cursor->module.high = 0;
  cursor->module.table = NULL;
  cursor->code.low = cursor->code.high = 0;
  cursor->context = walk->ucontext;
  cursor->unproven = 0;
}

/* *unproven: the first frame whose return address must be looked at yet (0: none), and the epoch it belongs to. */
typedef struct rules_unproven {
  uint32_t first;
  uint64_t epoch;
} rules_unproven;

static ONSTACK_HANDLER_APART onstack_walk_result rules_walk(const onstack_walk *walk, rules_unproven *unproven) {
  rules_cursor cursor;
  uint32_t count = 1;
  uint8_t how;
  onstack_truncation why;
  rules_begin(&cursor, walk);
  walk->frames[0] = cursor.pc;
  rules_locate(&cursor, 0); /* wherever the PC is, it is recorded */
  for (;;) {
    why = rules_step(&cursor, &how);
    if (why != RULES_STEP_OK || cursor.pc == 0) break;
    cursor.context = NULL;
    if (cursor.pc & RULES_CODE_ALIGN || !onstack_address_plausible(cursor.pc) || !rules_locate(&cursor, count)) {
      why = ONSTACK_TRUNCATED_BAD_RETURN;
      break;
    }
    if (count == walk->capacity) {
      why = ONSTACK_TRUNCATED_DEPTH;
      break;
    }
    if (walk->found) walk->found[count - 1] = how;
    walk->frames[count++] = cursor.exact ? cursor.pc + 1 : cursor.pc;
  }
  *unproven = (rules_unproven){cursor.unproven, cursor.epoch};
  return (onstack_walk_result){count, why == RULES_STEP_ROOT ? ONSTACK_TRUNCATED_NOT : why};
}

static ONSTACK_HANDLER void rules_note_proof(uint64_t return_address, uint64_t epoch) {
  uint64_t value = onstack_pc_recall(return_address - 1, epoch);
  if (value) onstack_pc_remember(return_address - 1, value & ~(uint64_t)RULES_UNPROVEN, epoch);
}

/* The frames from `from` on that the cache calls unproven, at most ONSTACK_COPY_MANY. */
static ONSTACK_HANDLER uint32_t rules_collect(const onstack_walk *walk, uint32_t count, rules_unproven *from,
                                              uint32_t *frames, uint64_t *addresses) {
  uint32_t found = 0;
  for (; from->first < count && found < ONSTACK_COPY_MANY; from->first++) {
    uint64_t address = walk->frames[from->first];
    if (!(onstack_pc_recall(address - 1, from->epoch) & RULES_UNPROVEN)) continue;
    frames[found] = from->first;
    addresses[found++] = address - ONSTACK_CALL_BYTES;
  }
  return found;
}

/*
 * Looks at the code in front of return addresses that are new: one system call for a dozen of them, each once in an
 * epoch. Returns the number of frames that can be believed. Code that cannot be read (unloaded a moment ago, or
 * execute-only) proves nothing either way, and its frames stay.
 */
static ONSTACK_HANDLER_APART uint32_t rules_prove(const onstack_walk *walk, uint32_t count, rules_unproven from) {
  uint32_t frames[ONSTACK_COPY_MANY];
  uint64_t words[ONSTACK_COPY_MANY];
  uint32_t found;
  while ((found = rules_collect(walk, count, &from, frames, words)) > 0) {
    uint32_t got = onstack_memory_copy_many(words, found, words);
    for (uint32_t i = 0; i < got; i++) {
      if (!onstack_call_ends((const uint8_t *)&words[i])) return frames[i];
      rules_note_proof(walk->frames[frames[i]], from.epoch);
    }
  }
  return count;
}

static ONSTACK_HANDLER onstack_walk_result rules_run(const onstack_walk *walk) {
  rules_unproven unproven;
  onstack_walk_result result = rules_walk(walk, &unproven);
  if (unproven.first == 0 || !walk->memory->copy_works) return result;
  uint32_t believed = rules_prove(walk, result.frame_count, unproven);
  return believed == result.frame_count ? result
                                        : (onstack_walk_result){believed, ONSTACK_TRUNCATED_BAD_RETURN};
}

ONSTACK_INTERNAL_DEFINE const onstack_unwinder_ops onstack_unwinder_rules = {"rules", true, true, 640, rules_run};
