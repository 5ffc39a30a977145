/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unwinder `rules`: each frame by the best description of its code.
 *
 *   native code      the module's rule table, derived from .eh_frame (sampler/unwind/rules.h)
 *   Go code          frame pointers, which all Go functions with callees keep; for an interrupted Go function its pcsp
 *                    table (it may be a leaf or in a prologue); at stack switches what the runtime stores
 *                    (sampler/unwind/go_stack.h, the kinds of Go functions in sampler/unwind/code_map.h)
 *   generated code   frame pointers (sampler/unwind/generated_code.h), as in modules without any
 *                    .eh_frame; where their chain ends there is more above
 *   assembly         without CFI in a module that has some for the rest: stubs of .plt are known by their bytes, for
 *                    anything else the walk ends: a frame pointer there is anybody's, and could skip callers
 *
 * Nothing is believed: a CFA must be aligned, rise within its stack and stay inside its bounds where they are known; a
 * return address must be code. Where that fails the walk ends with the reason. That a return address follows a call is
 * proven later (sampler/unwind/walk.h); here its frame is marked when it is new.
 *
 * An address is `exact` when it was interrupted, not called from: the first one, those above a signal frame, and those
 * above Go's asyncPreempt and sigpanic. All others are return addresses, and describe the call at address - 1. In the
 * output an exact address that is not the first is written plus 1, so that one convention holds for the whole stack.
 */
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/rules_cursor.h"

/*
 * What each processor has its own of, from the file that is named after it. Each defines
 *
 *   rules_step_signal             from the signal trampoline to what was interrupted
 *   rules_read_register           a general register of the interrupted code by its DWARF number
 *   rules_step_undescribed        native code that no rule describes
 *   rules_step_go_interrupted     an interrupted Go function whose pcsp entry is known
 *   rules_step_go_undescribed     ... is not known
 *   rules_step_go_by_record       a Go function that was called, by its frame record
 *   rules_step_go_by_table        ... by pcsp: a caller on a goroutine whose stack is being moved
 *   rules_leave_injected          from asyncPreempt or sigpanic to what it was put before
 */
#if defined(__x86_64__)
#include "sampler/unwind/rules_x86_64.h"
#elif defined(__aarch64__)
#include "sampler/unwind/rules_aarch64.h"
#endif

/* ---- code that .eh_frame describes --------------------------------------------------------------------------------------- */

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

/* ---- Go code ------------------------------------------------------------------------------------------------------------- */

/* Interrupted in a function that moves to another stack: has SP changed already? */
static ONSTACK_HANDLER onstack_truncation rules_check_switch(const rules_cursor *cursor, bool *switched) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  if (!special || special->switch_at == 0) return ONSTACK_TRUNCATED_STACK_SWITCH;
  *switched = cursor->pc - special->body.low >= special->switch_at;
  return RULES_STEP_OK;
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_called(rules_cursor *cursor) {
  switch (cursor->go_kind) {
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
  if (cursor->by_table && (cursor->go_kind == ONSTACK_GO_PLAIN || cursor->go_kind == ONSTACK_GO_EXACT))
    return rules_step_go_by_table(cursor);
  if (cursor->fp_unknown) return ONSTACK_TRUNCATED_STACK_SWITCH;
  return rules_step_go_by_record(cursor);
}

/* An interrupted Go function: what pcsp says about this very instruction. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_exact(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (cursor->go_kind == ONSTACK_GO_ROOT) return RULES_STEP_ROOT;
  if (cursor->go_kind == ONSTACK_GO_LOST) return ONSTACK_TRUNCATED_STACK_SWITCH; /* either stack may be current */
  if (cursor->go_kind == ONSTACK_GO_GROWS || cursor->go_kind == ONSTACK_GO_LEAVES || cursor->go_kind == ONSTACK_GO_RESUMES) {
    bool switched;
    onstack_truncation why = rules_check_switch(cursor, &switched);
    if (why != RULES_STEP_OK) return why;
    if (switched) return rules_step_go_called(cursor);
  }
  if (!onstack_go_frame_at(cursor->go, cursor->pc, &frame)) return rules_step_go_undescribed(cursor);
  return rules_step_go_interrupted(cursor, &frame);
}

/* ---- frames that are known ----------------------------------------------------------------------------------------------- */

/*
 * What most frames are: a return address that the PC cache knows, with a plain rule or in a plain Go function, on a page that
 * was just proven readable. rules_run_hot takes as many such frames as follow each other, with the cursor in registers, and
 * leaves everything else to the general step; what it does take is exactly what rules_step would have taken
 * (tests/core/test_walk_alike.c compares them).
 */

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

/* ---- the walk ------------------------------------------------------------------------------------------------------------ */

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
