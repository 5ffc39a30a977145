/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "handler/unwind/code_source.h"

#if defined(__aarch64__)

/* No runtime of generated code is known that clears x29. */
ONSTACK_HANDLER onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory) {
  (void)frame;
  (void)memory;
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

#endif
