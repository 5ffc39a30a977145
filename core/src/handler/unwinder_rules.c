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
#include "base/address.h"
#include "handler/go_stack.h"
#include "handler/pc_cache.h"
#include "handler/rules.h"
#include "handler/unwinder.h"

#define RULES_STEP_OK ONSTACK_TRUNCATED_NOT
#define RULES_STEP_ROOT ONSTACK_TRUNCATION_COUNT /* not a truncation: the walk is complete */
#define RULES_SWITCHES 64u                       /* of stacks in one walk; nesting is finite, a circle is not */

#if defined(__aarch64__)
#define RULES_CODE_ALIGN 3u
/* A Go frame on arm64 (cmd/internal/obj/arm64/obj7.go) has LR at SP, the caller's x29 in the word below, and x29 = SP - 8:
   the record begins below the frame that it belongs to. */
#define RULES_GO_BELOW 8u
#else
#define RULES_CODE_ALIGN 0u
#define RULES_GO_BELOW 0u
#endif

typedef struct rules_cursor {
  onstack_memory *memory;
  uint64_t pc, sp, fp, bx, lr;
  bool exact;
  uint32_t switches;
  bool scheduled; /* a frame of Go's scheduler was passed: the goroutine above it is not the one that m.curg names */
  bool by_table;  /* plain Go frames by pcsp: saved frame pointers may lead to either copy of a moving stack */
  bool fp_unknown; /* until a frame that saves it is passed; all three only on the way through morestack */
  uint64_t epoch; /* of the PC cache, for the whole walk */
  const onstack_go_runtime *go; /* what describes pc; one of the two or neither */
  const onstack_rule *rule;
  uint32_t treatment; /* of pc, where `go` */
  onstack_module module;
  onstack_code_range code;
} rules_cursor;

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

static ONSTACK_HANDLER bool rules_read(onstack_memory *memory, uint64_t address, uint64_t *word) {
  /* The pair below the address: its second word. So the last word of a stack can be read as well. */
  uint64_t pair[2];
  if (!onstack_memory_read_pair(memory, address - 8, pair)) return false;
  *word = pair[1];
  return true;
}

/* The walk goes on with another stack. */
static ONSTACK_HANDLER bool rules_enter_stack(rules_cursor *cursor, uint64_t sp) {
  if (++cursor->switches > RULES_SWITCHES) return false;
  onstack_memory_enter_stack(cursor->memory, sp);
  return true;
}

/* A CFA must be aligned, above the stack pointer, and inside the stack where its bounds are known. */
static ONSTACK_HANDLER onstack_truncation rules_check_cfa(const rules_cursor *cursor, uint64_t cfa) {
  if (cfa & 7) return ONSTACK_TRUNCATED_MISALIGNED;
  if (!onstack_address_plausible(cfa)) return ONSTACK_TRUNCATED_UNREADABLE;
#if defined(__aarch64__)
  if (cfa < cursor->sp || (cfa == cursor->sp && !cursor->exact)) return ONSTACK_TRUNCATED_NOT_RISING;
#else
  if (cfa <= cursor->sp) return ONSTACK_TRUNCATED_NOT_RISING;
#endif
  if (cursor->memory->high != 0 && cfa > cursor->memory->high) return ONSTACK_TRUNCATED_UNREADABLE;
  return RULES_STEP_OK;
}

/* To the caller by the frame record at FP: {caller's FP, return address}. */
static ONSTACK_HANDLER onstack_truncation rules_step_record(rules_cursor *cursor) {
  uint64_t record[2];
  /* Zero is the ABIs' mark of the outermost frame. In interrupted code that nothing describes it may be any number. */
  if (cursor->fp == 0) return cursor->exact && !cursor->go ? ONSTACK_TRUNCATED_NOT_RISING : RULES_STEP_ROOT;
  if (cursor->fp & 7) return ONSTACK_TRUNCATED_MISALIGNED;
  if (cursor->fp < cursor->sp && (!cursor->go || cursor->sp - cursor->fp > RULES_GO_BELOW))
    return ONSTACK_TRUNCATED_NOT_RISING;
  if (!onstack_memory_read_pair(cursor->memory, cursor->fp, record)) return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->sp = cursor->fp + 16;
  cursor->fp = record[0];
  cursor->pc = onstack_address_strip(record[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

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

/* From asmcgocall, with SP at what it stored on g0's stack, to the frame that called it on the goroutine's stack. */
static ONSTACK_HANDLER onstack_truncation rules_step_asmcgocall(rules_cursor *cursor) {
  uint64_t pair[2];
#if defined(__x86_64__)
  /* It calls gosave_systemstack_switch first, on the goroutine's stack: its record is at SP then. */
  if (cursor->fp == cursor->sp) return rules_step_record(cursor);
#endif
  uint64_t sp = onstack_go_waiting_sp(cursor->memory, cursor->sp);
  if (sp == 0 || !rules_enter_stack(cursor, sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
#if defined(__x86_64__)
  /* Its frame record is at that SP. */
  if (!onstack_memory_read_pair(cursor->memory, sp, pair)) return ONSTACK_TRUNCATED_STACK_SWITCH;
#else
  /* The return address is at that SP, the saved frame pointer in the word below (Go's frame layout on arm64). */
  if (!onstack_memory_read_pair(cursor->memory, sp - 8, pair)) return ONSTACK_TRUNCATED_STACK_SWITCH;
#endif
  cursor->sp = sp + 16;
  cursor->fp = pair[0];
  cursor->pc = onstack_address_strip(pair[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

#if defined(__aarch64__)
#include "handler/rules_arm64.h"
#else
/* Native code that no rule describes. */
static ONSTACK_HANDLER onstack_truncation rules_step_untold(rules_cursor *cursor) { return rules_step_record(cursor); }

/* A Go function without a pcsp table. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_untold(rules_cursor *cursor) {
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
#endif

/* A caller on a goroutine whose stack is being moved. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_table(rules_cursor *cursor) {
#if defined(__x86_64__)
  onstack_go_frame frame;
  if (onstack_go_frame_at(cursor->go, cursor->pc - 1, &frame) && !frame.writes_sp)
    return rules_step_go_frame(cursor, &frame);
#else
  (void)cursor;
#endif
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

/* From morestack on g0 to the goroutine whose stack grows; only where no other switch of stacks lies below. */
static ONSTACK_HANDLER onstack_truncation rules_step_growing(rules_cursor *cursor) {
  if (cursor->scheduled) return RULES_STEP_ROOT; /* it was preempted, and the thread has gone on, as after mcall */
  if (cursor->switches > 0 || !onstack_go_growing(cursor->memory, cursor->go, &cursor->pc, &cursor->sp))
    return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (!rules_enter_stack(cursor, cursor->sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->by_table = true;
  cursor->fp_unknown = true;
  cursor->exact = false; /* sched.pc is where the call of morestack returns to */
  return RULES_STEP_OK;
}

/* Interrupted in a function that moves to another stack: has SP changed already? */
static ONSTACK_HANDLER onstack_truncation rules_check_switch(const rules_cursor *cursor, bool *switched) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  if (!special || special->switch_at == 0) return ONSTACK_TRUNCATED_STACK_SWITCH;
  *switched = cursor->pc - special->body.low >= special->switch_at;
  return RULES_STEP_OK;
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_called(rules_cursor *cursor);

#if defined(__x86_64__)
/*
 * Interrupted in asmcgocall. C gives RBP back as it got it, while a callback may have moved the goroutine's stack: RBP
 * leads to a freed stack then. Behind the call it is believed only where it agrees with SP or with what is stored there.
 */
static ONSTACK_HANDLER bool rules_is_fp_fresh(const rules_cursor *cursor) {
  const onstack_go_special *special = onstack_code_go_special(cursor->go, cursor->pc);
  if (special && cursor->pc - special->body.low <= special->switch_at) return true;
  return cursor->fp == cursor->sp || cursor->fp == onstack_go_waiting_sp(cursor->memory, cursor->sp);
}
#endif

/* An interrupted Go function: what pcsp says about this very instruction. */
static ONSTACK_HANDLER onstack_truncation rules_step_go_exact(rules_cursor *cursor) {
  onstack_go_frame frame;
  if (cursor->treatment == ONSTACK_GO_ROOT) return RULES_STEP_ROOT;
  if (cursor->treatment == ONSTACK_GO_LOST) return ONSTACK_TRUNCATED_STACK_SWITCH; /* either stack may be current */
  if (cursor->treatment == ONSTACK_GO_GROWS || cursor->treatment == ONSTACK_GO_LEAVES ||
      cursor->treatment == ONSTACK_GO_RESUMES) {
    bool switched;
    onstack_truncation why = rules_check_switch(cursor, &switched);
    if (why != RULES_STEP_OK) return why;
    if (switched) return rules_step_go_called(cursor);
  }
  if (!onstack_go_frame_at(cursor->go, cursor->pc, &frame)) return rules_step_go_untold(cursor);
#if defined(__x86_64__)
  /* push rbp; mov rbp, rsp: from the fifth byte on RBP is good, whatever SP does afterwards. */
  if (frame.writes_sp && frame.depth >= 8 && cursor->pc - frame.entry >= 4) {
    if (cursor->treatment == ONSTACK_GO_BY_G && !rules_is_fp_fresh(cursor)) return ONSTACK_TRUNCATED_STACK_SWITCH;
    if (!rules_enter_stack(cursor, cursor->fp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
    cursor->sp = 0; /* the record may lie below: another stack */
    return rules_step_record(cursor);
  }
#endif
  return rules_step_go_frame(cursor, &frame);
}

static ONSTACK_HANDLER onstack_truncation rules_step_go_called(rules_cursor *cursor) {
#if defined(__x86_64__)
  uint64_t link[2];
#endif
  switch (cursor->treatment) {
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
  if (cursor->by_table && (cursor->treatment == ONSTACK_GO_PLAIN || cursor->treatment == ONSTACK_GO_EXACT))
    return rules_step_go_table(cursor);
  if (cursor->fp_unknown) return ONSTACK_TRUNCATED_STACK_SWITCH;
#if defined(__aarch64__)
  rules_go_mend_fp(cursor);
#endif
  switch (cursor->treatment) {
  case ONSTACK_GO_BY_G:
    return rules_step_asmcgocall(cursor);
#if defined(__aarch64__)
  case ONSTACK_GO_BY_FP:
    return rules_step_go_switch(cursor);
  case ONSTACK_GO_CROSSCALL2:
    return rules_step_crosscall2_called(cursor);
  case ONSTACK_GO_EXACT:
    return rules_step_go_injected(cursor);
#else
  case ONSTACK_GO_BY_FP:
    /* Its record is on the other stack, which nobody moves while this one runs. */
    if (!rules_enter_stack(cursor, cursor->fp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
    cursor->sp = 0;
    break;
  case ONSTACK_GO_CROSSCALL2:
    /* It saves RBP twice (runtime/cgo/asm_amd64.s): RBP points one word below its record, at a link to it. */
    if (onstack_memory_read_pair(cursor->memory, cursor->fp, link) && link[0] == cursor->fp + 8) cursor->fp += 8;
    break;
#endif
  default:
    break;
  }
  return rules_step_record(cursor);
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
