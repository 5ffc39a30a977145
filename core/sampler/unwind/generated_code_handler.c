/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Most just-in-time compilers keep frame pointers. A chain of them that ends in such code is not the root: somebody called
 * that code, and cleared the frame pointer on a stack of its own. Where that caller can be proven the walk goes on there;
 * elsewhere it says that it could not. Code without frames of its own is known by where it lies.
 *
 * A register that cannot be a frame pointer has another use in that code: Guile keeps the pointer of its own stack there, qemu
 * its state of the processor. Then nothing describes the code.
 */
#include "sampler/unwind/generated_code.h"

#include "platform/defs.h"
#include "platform/atomics.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/rules.h"

ONSTACK_INTERNAL_DEFINE onstack_jumped_code onstack_code_jumped;

static ONSTACK_HANDLER bool code_is_jumped(uint64_t address) {
  const uint64_t bytes = onstack_observe(&onstack_code_jumped.bytes); /* before `low`: published behind it */
  return address - onstack_load_relaxed(&onstack_code_jumped.low) < bytes && onstack_observe(&onstack_code_jumped.from) != 0;
}

/* To the caller of the function, as a step. A return address that was not called is found out at delivery, as of all code
   (sampler/unwind/walk.h). */
static ONSTACK_HANDLER_APART onstack_truncation code_leave_jumped(onstack_code_frame *frame, onstack_memory *memory) {
  onstack_module module = {.low = 0};
  uint64_t pair[2];
  const onstack_rule *rule = onstack_rules_find(onstack_load_relaxed(&onstack_code_jumped.from), &module);
  if (!rule) return module.pending ? ONSTACK_TRUNCATED_PENDING : ONSTACK_TRUNCATED_NO_RULE;
  const uint64_t size = rule->cfa == ONSTACK_CFA_FP ? onstack_load_relaxed(&onstack_code_jumped.frame_size) : 0;
  if ((rule->cfa != ONSTACK_CFA_SP && size == 0) || rule->ra == ONSTACK_AT_SAME) return ONSTACK_TRUNCATED_NO_RULE;
  /* The code has registers of its own: the frame pointer may be anything. */
  const uint64_t cfa = frame->sp + size + (uint64_t)(int64_t)rule->cfa_offset;
  if (cfa & 7) return ONSTACK_TRUNCATED_MISALIGNED;
  if (!onstack_address_plausible(cfa) || cfa <= frame->sp) return ONSTACK_TRUNCATED_NOT_RISING;
  if (rule->fp != ONSTACK_AT_SAME) {
    if (!onstack_memory_read_pair(memory, cfa + (uint64_t)((int64_t)rule->fp * 8), pair))
      return ONSTACK_TRUNCATED_UNREADABLE;
    frame->fp = pair[0];
  }
  if (!onstack_memory_read_pair(memory, cfa + (uint64_t)((int64_t)rule->ra * 8) - 8, pair))
    return ONSTACK_TRUNCATED_UNREADABLE;
  frame->pc = onstack_address_strip(pair[1]);
  frame->sp = cfa;
  return ONSTACK_TRUNCATED_NOT;
}

static ONSTACK_HANDLER_APART onstack_truncation code_step_by_record(onstack_code_frame *frame, onstack_memory *memory) {
  uint64_t record[2];
  if (frame->fp & 7 || frame->fp < frame->sp) return ONSTACK_TRUNCATED_NO_RULE;
  if (!onstack_memory_read_pair(memory, frame->fp, record)) return ONSTACK_TRUNCATED_UNREADABLE;
  if (!onstack_code_record_is_own(onstack_address_strip(record[1]))) return ONSTACK_TRUNCATED_STACK_SWITCH;
  frame->sp = frame->fp + 16;
  frame->fp = record[0];
  frame->pc = onstack_address_strip(record[1]);
  return ONSTACK_TRUNCATED_NOT;
}

ONSTACK_HANDLER onstack_truncation onstack_generated_step(onstack_code_frame *frame, onstack_memory *memory) {
  if (code_is_jumped(frame->pc - !frame->exact)) return code_leave_jumped(frame, memory);
  if (frame->fp != 0) return code_step_by_record(frame, memory);
  return frame->exact ? ONSTACK_TRUNCATED_NO_RULE /* it may be any number there */
                      : onstack_code_leave_guest(frame, memory);
}
