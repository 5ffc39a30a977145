/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/code_jumped.h"

#include "platform/address.h"
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_source.h"
#include "sampler/unwind/rules.h"

ONSTACK_INTERNAL_DEFINE onstack_jumped_code onstack_code_jumped;

ONSTACK_HANDLER_APART onstack_truncation onstack_code_leave_jumped(onstack_code_frame *frame, onstack_memory *memory) {
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
