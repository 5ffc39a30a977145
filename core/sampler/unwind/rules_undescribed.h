/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of unwinder_rules_handler.c for code that no module describes; included there and nowhere else. */
#ifndef ONSTACK_SAMPLER_UNWIND_RULES_UNDESCRIBED_H
#define ONSTACK_SAMPLER_UNWIND_RULES_UNDESCRIBED_H

#include "sampler/unwind/code_source.h"
#include "sampler/unwind/rules_cursor.h"

/* To the caller, by the source that knows of such code. */
static ONSTACK_HANDLER onstack_truncation rules_step_generated(rules_cursor *cursor) {
  cursor->switched = false;
  const onstack_truncation why = onstack_load_relaxed(&onstack_code_source_used)->step(&cursor->frame, cursor->memory);
  if (why != RULES_STEP_OK) return why;
  if (cursor->switched && ++cursor->switches > RULES_SWITCHES) return ONSTACK_TRUNCATED_STACK_SWITCH;
  cursor->exact = false;
  return RULES_STEP_OK;
}

/* Code that nothing describes, in a module without any rules or in none. */
static ONSTACK_HANDLER onstack_truncation rules_step_by_frame_pointer(rules_cursor *cursor) {
  return cursor->generated ? rules_step_generated(cursor) : rules_step_record(cursor);
}

#endif
