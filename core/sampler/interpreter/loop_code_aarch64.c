/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/interpreter.h"

#if defined(__aarch64__)

/* PHP's compiler takes 16 bytes and more of the stack there (ext/opcache/jit, HYBRID_SPAD), and keeps x29. */
bool onstack_loop_frame(uint64_t address, uint64_t *size) {
  (void)address;
  *size = 0;
  return false;
}

/* Conditional jumps do not reach that far here. Stacks that such a part is in count as unmatched, or lack a call. */
uint32_t onstack_loop_cold(onstack_loop_code loops[ONSTACK_LOOP_CODES], uint32_t count) {
  (void)loops;
  return count;
}

#endif
