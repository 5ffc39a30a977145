/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/defs.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/generated_code.h"
#include "sampler/unwind/go_stack.h"

#if defined(__x86_64__)

/*
 * asmcgocall stores the goroutine's g and stack depth on g0's stack, just above the C frame's return address
 * (runtime/asm_amd64.s: 0(SP) = depth, 8(SP) = g). The goroutine's SP is g.stack.hi - depth, and asmcgocall's own record
 * is there. The saved RBP is not used for this hop: when a Go callback has grown the goroutine's stack it points into the
 * old, freed one.
 */
static ONSTACK_HANDLER bool fp_cross_asmcgocall(onstack_memory *memory, onstack_fp_cursor *cursor) {
  uint64_t sp = onstack_go_waiting_sp(memory, cursor->fp + 16);
  if (sp == 0) return false;
  onstack_memory_enter_stack(memory, sp);
  cursor->floor = cursor->fp = sp;
  return true;
}

/*
 * crosscall2 (runtime/cgo/asm_amd64.s, C's way into Go) saves RBP twice: the assembler's own record, and one word below
 * it another link to that record, which RBP points at during the call. The word above that link is no return address.
 */
static ONSTACK_HANDLER void fp_skip_double_record(onstack_memory *memory, onstack_fp_cursor *cursor) {
  uint64_t link[2];
  if (onstack_memory_read_pair(memory, cursor->fp, link) && link[0] == cursor->fp + 8) cursor->fp += 8;
}

ONSTACK_HANDLER bool onstack_fp_cross(onstack_memory *memory, onstack_fp_cursor *cursor, const onstack_fp_call *call) {
  if (call->kind == ONSTACK_GO_BY_G) return fp_cross_asmcgocall(memory, cursor);
  cursor->floor = cursor->fp + 16;
  cursor->fp = call->saved_fp;
  fp_skip_double_record(memory, cursor);
  return true;
}

#endif

#if defined(__x86_64__)

/*
 * wazero (internal/engine/wazevo) runs guests under Go without cgo. Its preamble notes where Go's frame is in the guest's
 * execution context, puts SP on a stack from Go's heap, clears RBP and calls the guest (abi_entry_preamble.go,
 * abi_entry_amd64.s):
 *
 *   context + 16, + 24    Go's RBP and SP. At that SP: the return address into Go, then the arguments of
 *                         entrypoint(preamble, function, context, ..) or afterGoFunctionCallEntrypoint(code, context, ..)
 *
 * Every guest function gets the context as its first argument. One that calls others keeps it for them, in its frame or in
 * a register that a callee saves. So it is one of the words below the top of the guest's stack; the right one says of itself
 * that it is: the context leads to the stack pointer, and the arguments there lead back to the context.
 *
 * A function that calls nothing keeps it nowhere. But Go's frame has it: on the goroutine's stack, whose bounds g has, there
 * is a return address into Go, and above it the arguments. What earlier calls left there, and frames that entered other
 * guests, look alike. The right context says so: some words before it are the top of the guest's stack and its preamble
 * (call_engine.go, callEngine).
 */
#define CODE_GUEST_WORDS 96u     /* that are looked at, from the top of the guest's stack down */
#define CODE_GUEST_CANDIDATES 8u /* that are followed */
#define CODE_GUEST_ENGINE 16u    /* words before the context that are looked at */
#define CODE_GUEST_SLOTS 4096u /* bytes of arguments and results between the top of the guest's stack and its first frame */
#define CODE_GUEST_PREAMBLE 4096u /* bytes of a preamble */
#define CODE_GUEST_PAIRS 2048u    /* of the goroutine's stack, from its end down */
#define CODE_GUEST_COPIES 128u    /* the same where each is a system call */

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

/* By the words below the top of the guest's stack. */
static ONSTACK_HANDLER bool code_leave_by_guest(onstack_code_frame *frame, onstack_memory *memory, uint64_t pair[2]) {
  uint64_t last = 0;
  uint32_t followed = 0;
  for (uint32_t i = 3; i < CODE_GUEST_WORDS && followed < CODE_GUEST_CANDIDATES; i++) {
    const uint64_t at = frame->sp - 8 * (uint64_t)i;
    if (at < frame->low || !onstack_memory_read_pair(memory, at, pair)) break;
    const uint64_t word = pair[0];
    if (word == last || word & 7 || !onstack_address_plausible(word) || word - frame->low < frame->sp - frame->low) continue;
    last = word;
    followed++;
    if (code_leave_context(frame, memory, word, pair)) return true;
  }
  return false;
}

/* Whether `context` belongs to the guest whose preamble the frame is. */
static ONSTACK_HANDLER bool code_guest_is(const onstack_code_frame *frame, onstack_memory *memory, uint64_t context,
                                          uint64_t pair[2]) {
  bool top = false, preamble = false;
  for (uint32_t i = 2; i <= CODE_GUEST_ENGINE; i += 2) {
    if (!onstack_memory_read_pair(memory, context - 8 * (uint64_t)i, pair)) return false;
    top |= pair[0] - frame->sp < CODE_GUEST_SLOTS || pair[1] - frame->sp < CODE_GUEST_SLOTS;
    preamble |= frame->pc - pair[0] < CODE_GUEST_PREAMBLE || frame->pc - pair[1] < CODE_GUEST_PREAMBLE;
  }
  return top && preamble;
}

/* By a frame of Go at `sp`, if it begins with a return address into Go and has entered this guest. */
static ONSTACK_HANDLER bool code_leave_by_frame(onstack_code_frame *frame, onstack_memory *memory, uint64_t return_address,
                                                uint64_t sp, uint64_t pair[2]) {
  if (!onstack_code_find_go(return_address - 1) || !onstack_memory_read_pair(memory, sp + 16, pair)) return false;
  const uint64_t contexts[2] = {pair[0], pair[1]};
  for (uint32_t i = 0; i < 2; i++) {
    if (contexts[i] & 7 || !onstack_address_plausible(contexts[i])) continue;
    if (!onstack_memory_read_pair(memory, contexts[i] + 16, pair) || pair[1] != sp) continue;
    if (code_guest_is(frame, memory, contexts[i], pair) && code_leave_context(frame, memory, contexts[i], pair)) return true;
  }
  return false;
}

/* By the stack of the goroutine that the thread runs. */
static ONSTACK_HANDLER bool code_leave_by_stack(onstack_code_frame *frame, onstack_memory *memory, const uint64_t stack[2],
                                                uint64_t pair[2]) {
  onstack_memory_enter_stack(memory, stack[1] - 16);
  const uint32_t most = memory->high != 0 ? CODE_GUEST_PAIRS : CODE_GUEST_COPIES;
  uint64_t at = stack[1] & ~(uint64_t)15;
  for (uint32_t i = 0; i < most && at - stack[0] >= 32; i++) {
    at -= 16;
    if (!onstack_memory_read_pair(memory, at, pair)) return false;
    const uint64_t words[2] = {pair[0], pair[1]};
    for (uint32_t k = 0; k < 2; k++)
      if (code_leave_by_frame(frame, memory, words[k], at + 8 * (uint64_t)k, pair)) return true;
  }
  return false;
}

ONSTACK_HANDLER onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory) {
  const uint32_t runtimes = onstack_observe(&onstack_code.go_count);
  uint64_t stack[2], pair[2];
  if (code_leave_by_guest(frame, memory, pair)) return ONSTACK_TRUNCATED_NOT;
  for (uint32_t i = 0; i < runtimes; i++)
    if (onstack_go_running_stack(memory, &onstack_code.go[i], stack) && code_leave_by_stack(frame, memory, stack, pair))
      return ONSTACK_TRUNCATED_NOT;
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

#endif
