/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/frame_pointer.h"

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
