/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rules/arch.h for x86_64: the way out of generated code. wazero (internal/engine/wazevo) runs guests under Go without
 * cgo. Its preamble notes where Go's frame is in the guest's execution context, puts SP on a stack from Go's heap, clears
 * RBP and calls the guest (abi_entry_preamble.go, abi_entry_amd64.s):
 *
 *   context + 16, + 24    Go's RBP and SP. At that SP: the return address into Go, then the arguments of
 *                         entrypoint(preamble, function, context, ..) or afterGoFunctionCallEntrypoint(code, context, ..)
 *
 * Every guest function gets the context as its first argument and keeps it for what it calls, in its frame or in a
 * register that a callee saves. So it is one of the words below the top of the guest's stack; the right one says of itself
 * that it is: the context leads to the stack pointer, and the arguments there lead back to the context.
 */
#ifndef ONSTACK_HANDLER_UNWIND_RULES_GENERATED_X86_64_H
#define ONSTACK_HANDLER_UNWIND_RULES_GENERATED_X86_64_H

#include "handler/unwind/rules/cursor.h"

#define RULES_GUEST_WORDS 96u     /* that are looked at, from the top of the guest's stack down */
#define RULES_GUEST_CANDIDATES 8u /* that are followed */

/* To the Go frame that entered the guest, if `context` is its execution context. `pair` is room: one for all, since the
   signal stack is small. */
static ONSTACK_HANDLER bool rules_leave_guest(rules_cursor *cursor, uint64_t context, uint64_t pair[2]) {
  if (!onstack_memory_read_pair(cursor->memory, context + 16, pair)) return false;
  const uint64_t fp = pair[0], sp = pair[1];
  if (sp & 7 || !onstack_memory_read_pair(cursor->memory, sp + 16, pair)) return false;
  if (pair[0] != context && pair[1] != context) return false;
  if (!onstack_memory_read_pair(cursor->memory, sp, pair)) return false;
  if (!onstack_code_find_go(pair[0] - 1) || !rules_enter_stack(cursor, sp)) return false;
  cursor->pc = pair[0];
  cursor->sp = sp + 8;
  cursor->fp = fp;
  return true;
}

/* Above the outermost frame of generated code, with SP behind its return address. `low`: where the walk began. */
static ONSTACK_HANDLER onstack_truncation rules_leave_generated(rules_cursor *cursor, uint64_t low) {
  const uint64_t top = cursor->sp;
  uint64_t last = 0, pair[2];
  uint32_t followed = 0;
  for (uint32_t i = 3; i < RULES_GUEST_WORDS && followed < RULES_GUEST_CANDIDATES; i++) {
    const uint64_t at = top - 8 * (uint64_t)i;
    if (at < low || !onstack_memory_read_pair(cursor->memory, at, pair)) break;
    const uint64_t word = pair[0];
    if (word == last || word & 7 || !onstack_address_plausible(word) || word - low < top - low) continue;
    last = word;
    followed++;
    if (rules_leave_guest(cursor, word, pair)) return RULES_STEP_OK;
  }
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

#endif
