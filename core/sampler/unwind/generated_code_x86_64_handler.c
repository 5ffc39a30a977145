/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/address.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/generated_code.h"

#if defined(__x86_64__)

/*
 * wazero (internal/engine/wazevo) runs guests under Go without cgo. Its preamble notes where Go's frame is in the guest's
 * execution context, puts SP on a stack from Go's heap, clears RBP and calls the guest (abi_entry_preamble.go,
 * abi_entry_amd64.s):
 *
 *   context + 16, + 24    Go's RBP and SP. At that SP: the return address into Go, then the arguments of
 *                         entrypoint(preamble, function, context, ..) or afterGoFunctionCallEntrypoint(code, context, ..)
 *
 * Every guest function gets the context as its first argument and keeps it for what it calls, in its frame or in a
 * register that a callee saves. So it is one of the words below the top of the guest's stack; the right one says of itself
 * that it is: the context leads to the stack pointer, and the arguments there lead back to the context.
 */
#define CODE_GUEST_WORDS 96u     /* that are looked at, from the top of the guest's stack down */
#define CODE_GUEST_CANDIDATES 8u /* that are followed */

ONSTACK_HANDLER bool onstack_code_record_is_own(uint64_t return_address) {
  (void)return_address;
  return true; /* who has no records there clears RBP first */
}

/* To the Go frame that entered the guest, if `context` is its execution context. `pair` is room: one for all, since the
   signal stack is small. */
static ONSTACK_HANDLER bool code_leave_context(onstack_code_frame *frame, onstack_memory *memory, uint64_t context,
                                               uint64_t pair[2]) {
  if (!onstack_memory_read_pair(memory, context + 16, pair)) return false;
  const uint64_t fp = pair[0], sp = pair[1];
  if (sp & 7 || !onstack_memory_read_pair(memory, sp + 16, pair)) return false;
  if (pair[0] != context && pair[1] != context) return false;
  if (!onstack_memory_read_pair(memory, sp, pair)) return false;
  if (!onstack_code_find_go(pair[0] - 1)) return false;
  onstack_memory_enter_stack(memory, sp);
  frame->switched = true;
  frame->pc = pair[0];
  frame->sp = sp + 8;
  frame->fp = fp;
  return true;
}

ONSTACK_HANDLER onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory) {
  uint64_t last = 0, pair[2];
  uint32_t followed = 0;
  for (uint32_t i = 3; i < CODE_GUEST_WORDS && followed < CODE_GUEST_CANDIDATES; i++) {
    const uint64_t at = frame->sp - 8 * (uint64_t)i;
    if (at < frame->low || !onstack_memory_read_pair(memory, at, pair)) break;
    const uint64_t word = pair[0];
    if (word == last || word & 7 || !onstack_address_plausible(word) || word - frame->low < frame->sp - frame->low) continue;
    last = word;
    followed++;
    if (code_leave_context(frame, memory, word, pair)) return ONSTACK_TRUNCATED_NOT;
  }
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

#endif
