/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The state of a walk of unwinder_rules_handler.c, and the steps that the walker and its part for the processor
 * (rules_x86_64.h, rules_aarch64.h) share. All are static functions, included there and nowhere else, so that the whole walk
 * is inlined into one frame on the signal stack.
 */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_CURSOR_H
#define ONSTACK_SAMPLER_UNWIND_RULES_CURSOR_H

#include "platform/defs.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/generated_code.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/go_stack.h"
#include "sampler/unwind/memory.h"
#include "sampler/unwind/pc_cache.h"
#include "sampler/unwind/rules.h"
#include "sampler/unwind/unwinder.h"

#define RULES_STEP_OK ONSTACK_TRUNCATED_NOT
#define RULES_STEP_ROOT ONSTACK_TRUNCATION_COUNT /* not a truncation: the walk is complete */
#define RULES_SWITCHES 64u                       /* of stacks in one walk; nesting is finite, a circle is not */

/*
 * What the PC cache holds of an address: its rule's address, or a number below RULES_PACKED; and ONSTACK_PC_UNPROVEN.
 */
#define RULES_GENERATED (1u << 1)   /* code in no module */
#define RULES_UNDESCRIBED (2u << 1) /* code without a rule in a module that has some */
#define RULES_PENDING (3u << 1)     /* code of a module whose rules are not derived yet */
#define RULES_WITHOUT (4u << 1)     /* code of a module that has no rules at all */
#define RULES_GO_FIRST 5u           /* + index of the runtime << 8 | kind, all << 1 */
#define RULES_PACKED 0x20000u
_Static_assert(((RULES_GO_FIRST + (ONSTACK_GO_RUNTIMES << 8)) << 1) < RULES_PACKED, "numbers and addresses are told apart");
_Static_assert(_Alignof(onstack_rule) >= 2, "the lowest bit of a rule's address is free");

typedef struct rules_cursor {
  onstack_memory *memory;
  /* What a source of code may look at and step is a part of the cursor: the signal stack is small. */
  union {
    onstack_code_frame frame;
    struct {
      uint64_t pc, sp, fp, low;
      bool exact, switched;
    };
  };
  uint64_t bx, lr;
  uint32_t switches;
  bool scheduled;  /* a frame of Go's scheduler was passed: the goroutine above it is not the one that m.curg names */
  bool by_table;   /* plain Go frames by pcsp: saved frame pointers may lead to either copy of a moving stack */
  bool fp_unknown; /* until a frame that saves it is passed; all three only on the way through morestack */
  uint64_t seal;   /* of the PC cache's epoch, for the whole walk */
  const onstack_go_runtime *go; /* what describes pc; one of the two or neither */
  const onstack_rule *rule;
  uint32_t go_kind; /* of pc, where `go` */
  onstack_module module;
  onstack_code_range code;
  bool pending;        /* the module that holds pc will have rules; its frame pointers may be anything */
  bool generated;      /* no module holds pc */
  bool described;      /* neither `go` nor `rule`, but the module that holds pc has rules for other code */
  const void *context; /* the kernel's ucontext while the first frame is walked: all registers; later NULL */
  bool unproven;       /* pc is a return address that has not been seen behind a call yet */
  bool missed;         /* the interrupted code is not in the map, which is older: any address may be code */
  bool unlisted;       /* pc may be code only because of that */
} rules_cursor;

_Static_assert(offsetof(rules_cursor, low) - offsetof(rules_cursor, frame) == offsetof(onstack_code_frame, low) &&
                   offsetof(rules_cursor, switched) - offsetof(rules_cursor, frame) ==
                       offsetof(onstack_code_frame, switched),
               "both names of a field are one field");

static ONSTACK_HANDLER uint64_t rules_pack_go(const rules_cursor *cursor) {
  return (RULES_GO_FIRST + ((uint64_t)(cursor->go - onstack_code.go) << 8 | cursor->go_kind)) << 1;
}

static ONSTACK_HANDLER void rules_unpack(rules_cursor *cursor, uint64_t value) {
  value &= ~(uint64_t)ONSTACK_PC_UNPROVEN;
  cursor->rule = NULL;
  cursor->go = NULL;
  cursor->generated = cursor->described = cursor->pending = false;
  if (value >= RULES_PACKED) {
    cursor->rule = (const onstack_rule *)(uintptr_t)value;
  } else if (value >= RULES_GO_FIRST << 1) {
    uint64_t go = (value >> 1) - RULES_GO_FIRST;
    cursor->go = &onstack_code.go[go >> 8];
    cursor->go_kind = (uint32_t)(go & 0xff);
  } else {
    cursor->generated = value == RULES_GENERATED;
    cursor->described = value == RULES_UNDESCRIBED;
    cursor->pending = value == RULES_PENDING;
  }
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

/* The walk goes on with a stack whose stack pointer is only told by memory: the kernel copies all words of it, and nobody is
   asked for its bounds. */
static ONSTACK_HANDLER bool rules_leave_stack(rules_cursor *cursor) {
  if (++cursor->switches > RULES_SWITCHES) return false;
  cursor->memory->low = cursor->memory->high = 0;
  return true;
}

/* A CFA must be aligned, above the stack pointer, and inside the stack where its bounds are known. */
static ONSTACK_HANDLER onstack_truncation rules_check_cfa(const rules_cursor *cursor, uint64_t cfa) {
  if (cfa & 7) return ONSTACK_TRUNCATED_MISALIGNED;
  if (!onstack_address_plausible(cfa)) return ONSTACK_TRUNCATED_UNREADABLE;
  /* With a link register an interrupted function may have no frame yet. */
  if (cfa < cursor->sp || (cfa == cursor->sp && !(ONSTACK_ARCH_LINK_REGISTER && cursor->exact)))
    return ONSTACK_TRUNCATED_NOT_RISING;
  if (cursor->memory->high != 0 && cfa > cursor->memory->high) return ONSTACK_TRUNCATED_UNREADABLE;
  return RULES_STEP_OK;
}

/* To the caller by the frame record at FP: {caller's FP, return address}. */
static ONSTACK_HANDLER onstack_truncation rules_step_record(rules_cursor *cursor) {
  uint64_t record[2];
  const uint64_t address = cursor->pc - !cursor->exact;
  if (!cursor->go && onstack_chain_begins(address, cursor->sp)) return RULES_STEP_ROOT;
  /* Zero is the ABIs' mark of the outermost frame, and Go keeps to it. In other code it may be any number. */
  if (cursor->fp == 0) return cursor->go ? RULES_STEP_ROOT : onstack_chain_end(address, cursor->sp);
  if (cursor->fp & 7)
    return cursor->fp == ONSTACK_UNKNOWN_REGISTER ? ONSTACK_TRUNCATED_NO_RULE : ONSTACK_TRUNCATED_MISALIGNED;
  if (cursor->fp < cursor->sp && (!cursor->go || cursor->sp - cursor->fp > ONSTACK_GO_RECORD_BELOW))
    return ONSTACK_TRUNCATED_NOT_RISING;
  if (!onstack_memory_read_pair(cursor->memory, cursor->fp, record)) return ONSTACK_TRUNCATED_UNREADABLE;
  cursor->sp = cursor->fp + 16;
  cursor->fp = record[0];
  cursor->pc = onstack_address_strip(record[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* ---- code that no module describes --------------------------------------------------------------------------------------- */

static ONSTACK_HANDLER onstack_truncation rules_step_generated(rules_cursor *cursor) {
  cursor->switched = false;
  const onstack_truncation why = onstack_generated_step(&cursor->frame, cursor->memory);
  if (why != RULES_STEP_OK) return why;
  if (cursor->switched && ++cursor->switches > RULES_SWITCHES) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* Code that nothing describes, in a module without any rules or in none. */
static ONSTACK_HANDLER onstack_truncation rules_step_by_frame_pointer(rules_cursor *cursor) {
  return cursor->generated ? rules_step_generated(cursor) : rules_step_record(cursor);
}

/* ---- Go's changes of stacks, which all processors share ------------------------------------------------------------------ */

/* From asmcgocall, with SP at what it stored on g0's stack, to the frame that called it on the goroutine's stack. */
static ONSTACK_HANDLER onstack_truncation rules_step_waiting(rules_cursor *cursor) {
  uint64_t pair[2];
  uint64_t sp = onstack_go_waiting_sp(cursor->memory, cursor->sp);
  if (sp == 0 || !rules_enter_stack(cursor, sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (!onstack_memory_read_pair(cursor->memory, sp - ONSTACK_GO_RECORD_BELOW, pair)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->sp = sp + 16;
  cursor->fp = pair[0];
  cursor->pc = onstack_address_strip(pair[1]);
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* From morestack on g0 to the goroutine whose stack grows; only where no other switch of stacks lies below. */
static ONSTACK_HANDLER onstack_truncation rules_step_growing(rules_cursor *cursor) {
  if (cursor->scheduled) return RULES_STEP_ROOT; /* it was preempted, and the thread has gone on, as after mcall */
  onstack_go_point waits;
  if (cursor->switches > 0 || !onstack_go_growing(cursor->memory, cursor->go, &waits)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  if (waits.pc == 0) return RULES_STEP_ROOT; /* preempted as well, on its way to the scheduler */
  if (!rules_enter_stack(cursor, waits.sp)) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->pc = waits.pc;
  cursor->sp = waits.sp;
  cursor->lr = waits.lr;
  cursor->by_table = true;
  cursor->fp_unknown = true;
  cursor->exact = false; /* sched.pc is where the call of morestack returns to */
  return RULES_STEP_OK;
}

#endif
