/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/address.h"
#include "handler/unwind/code_map.h"
#include "handler/unwind/code_source.h"
#include "handler/unwind/go_stack.h"

#if defined(__x86_64__)

/*
 * wazero (internal/engine/wazevo) runs guests under Go without cgo. Its preamble notes where Go's frame is in the guest's
 * execution context, puts SP on a stack from Go's heap, clears RBP and calls the guest (abi_entry_preamble.go,
 * abi_entry_amd64.s). A guest may keep the context nowhere, but Go's frame has it. The goroutine's stack has, at Go's SP:
 *
 *   return address into Go, preamble, function, context, ..    entered by entrypoint
 *   return address into Go, guest's code, context, ..          entered again by afterGoFunctionCallEntrypoint
 *
 * What earlier calls left there, and the frames that entered other guests, look alike. The right context says so:
 *
 *   context + 16, + 24      Go's RBP and SP
 *   some words before it    the top of the guest's stack, and the preamble (call_engine.go, callEngine)
 */
#define CODE_GUEST_WORDS 16u   /* before the context that are looked at */
#define CODE_GUEST_SLOTS 4096u /* bytes of arguments and results between the top of the guest's stack and its first frame */
#define CODE_GUEST_PREAMBLE 4096u /* bytes of a preamble */
#define CODE_GUEST_PAIRS 2048u    /* of the goroutine's stack, from its end down */
#define CODE_GUEST_COPIES 128u    /* the same where each is a system call */

ONSTACK_HANDLER bool onstack_code_record_is_own(uint64_t return_address) {
  (void)return_address;
  return true; /* who has no records there clears RBP first */
}

/* Whether `context` belongs to the guest whose preamble the frame is. `pair` is room: one for all, since the signal stack is
   small. */
static ONSTACK_HANDLER bool code_guest_is(const onstack_code_frame *frame, onstack_memory *memory, uint64_t context,
                                          uint64_t pair[2]) {
  bool top = false, preamble = false;
  for (uint32_t i = 2; i <= CODE_GUEST_WORDS; i += 2) {
    if (!onstack_memory_read_pair(memory, context - 8 * (uint64_t)i, pair)) return false;
    top |= pair[0] - frame->sp < CODE_GUEST_SLOTS || pair[1] - frame->sp < CODE_GUEST_SLOTS;
    preamble |= frame->pc - pair[0] < CODE_GUEST_PREAMBLE || frame->pc - pair[1] < CODE_GUEST_PREAMBLE;
  }
  return top && preamble;
}

/* To the Go frame with SP at `sp`, if that has entered the guest by this context. */
static ONSTACK_HANDLER bool code_leave_context(onstack_code_frame *frame, onstack_memory *memory, uint64_t context,
                                               uint64_t sp, uint64_t pair[2]) {
  if (context & 7 || !onstack_memory_read_pair(memory, context + 16, pair) || pair[1] != sp) return false;
  const uint64_t fp = pair[0];
  if (!code_guest_is(frame, memory, context, pair) || !onstack_memory_read_pair(memory, sp, pair)) return false;
  frame->switched = true;
  frame->pc = pair[0];
  frame->sp = sp + 8;
  frame->fp = fp;
  return true;
}

/* The same if Go's frame has the return address and the next word. */
static ONSTACK_HANDLER bool code_leave_by(onstack_code_frame *frame, onstack_memory *memory, uint64_t return_address,
                                          uint64_t code, uint64_t sp) {
  onstack_code_range range = {0, 0};
  uint64_t pair[2];
  if (!onstack_code_find_go(return_address - 1)) return false;
  const bool entered = frame->pc - code < CODE_GUEST_PREAMBLE;
  if (!entered && (onstack_code_find_go(code) || !onstack_address_plausible(code) || !onstack_code_is_known(code, &range)))
    return false;
  if (!onstack_memory_read_pair(memory, sp + 16, pair)) return false;
  const uint64_t context = pair[entered];
  return code_leave_context(frame, memory, context, sp, pair);
}

/* By the stack of the goroutine that the thread runs. */
static ONSTACK_HANDLER bool code_leave_by_stack(onstack_code_frame *frame, onstack_memory *memory, const uint64_t stack[2]) {
  uint64_t pair[2], above = 0;
  onstack_memory_enter_stack(memory, stack[1] - 16);
  const uint32_t most = memory->high != 0 ? CODE_GUEST_PAIRS : CODE_GUEST_COPIES;
  uint64_t at = stack[1] & ~(uint64_t)15;
  for (uint32_t i = 0; i < most && at - stack[0] >= 32; i++) {
    at -= 16;
    if (!onstack_memory_read_pair(memory, at, pair)) return false;
    const uint64_t low = pair[0], high = pair[1];
    if (code_leave_by(frame, memory, high, above, at + 8) || code_leave_by(frame, memory, low, high, at)) return true;
    above = low;
  }
  return false;
}

ONSTACK_HANDLER onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory) {
  const uint32_t runtimes = onstack_observe(&onstack_code.go_count);
  uint64_t stack[2];
  for (uint32_t i = 0; i < runtimes; i++)
    if (onstack_go_running_stack(memory, &onstack_code.go[i], stack) && code_leave_by_stack(frame, memory, stack))
      return ONSTACK_TRUNCATED_NOT;
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

#endif
