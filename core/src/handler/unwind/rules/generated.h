/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of unwinder_rules.c for the outermost frame of generated code; included there and nowhere else.
 *
 * A chain of frame pointers that ends in code of no module is not the root: somebody called that code. Where that is known
 * the walk goes on there (rules_leave_generated in rules/arch.h).
 */
#ifndef ONSTACK_HANDLER_UNWIND_RULES_GENERATED_H
#define ONSTACK_HANDLER_UNWIND_RULES_GENERATED_H

#include "handler/unwind/rules/cursor.h"

/* A return address in code that belongs to no module. */
static ONSTACK_HANDLER bool rules_is_generated(rules_cursor *cursor) {
  if (cursor->go || cursor->rule || cursor->described || cursor->exact) return false;
  return onstack_modules_find(cursor->pc - 1, &cursor->module) != ONSTACK_MODULE_HERE;
}

#endif
