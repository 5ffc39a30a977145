/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/instructions.h"

#if defined(__aarch64__)

/* PHP's compiler takes 16 bytes and more of the stack there (ext/opcache/jit, HYBRID_SPAD), and keeps x29. */
bool onstack_instructions_frame(uint64_t address, uint64_t *size) {
  (void)address;
  *size = 0;
  return false;
}

/* Not tried. */
bool onstack_instructions_constant(uint64_t address, uint64_t *value) {
  (void)address;
  *value = 0;
  return false;
}

/* Conditional jumps do not reach that far here. Stacks that such a part is in count as unmatched, or lack a call. */
int onstack_cold_code(uint64_t eh_frame_header, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)eh_frame_header, (void)loops;
  return 1;
}

#endif
