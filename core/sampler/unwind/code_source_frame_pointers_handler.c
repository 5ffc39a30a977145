/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Most just-in-time compilers keep frame pointers. A chain of them that ends in such code is not the root: somebody called
 * that code, and cleared the frame pointer on a stack of its own. Where that caller can be proven the walk goes on there;
 * elsewhere it says that it could not. Code without frames of its own is known by where it lies.
 *
 * A register that cannot be a frame pointer has another use in that code: Guile keeps the pointer of its own stack there, qemu
 * its state of the processor. Then nothing describes the code.
 */
#include "sampler/unwind/arch.h"
#include "sampler/unwind/code_jumped.h"
#include "sampler/unwind/code_source.h"

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

static ONSTACK_HANDLER onstack_truncation code_step_by_frame_pointer(onstack_code_frame *frame, onstack_memory *memory) {
  if (onstack_code_is_jumped(frame->pc - !frame->exact)) return onstack_code_leave_jumped(frame, memory);
  if (frame->fp != 0) return code_step_by_record(frame, memory);
  return frame->exact ? ONSTACK_TRUNCATED_NO_RULE /* it may be any number there */
                      : onstack_code_leave_guest(frame, memory);
}

ONSTACK_INTERNAL_DEFINE const onstack_code_source onstack_code_source_frame_pointers = {.name = "frame_pointers",
                                                                                        .step = code_step_by_frame_pointer};
