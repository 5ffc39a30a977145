/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/generated_code.h"

#if defined(__aarch64__)

/* wazero's guests keep no records, and use x29 like any other register. Until one does, its record is that of the Go function
   that entered the guest, and leads past that function and past everybody on the guest's stack. */
ONSTACK_HANDLER bool onstack_code_record_is_own(uint64_t return_address) {
  return !onstack_code_find_go(return_address - 1);
}

/* No runtime of generated code is known that clears x29. */
ONSTACK_HANDLER onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory) {
  (void)frame;
  (void)memory;
  return ONSTACK_TRUNCATED_STACK_SWITCH;
}

#endif
