/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Conditional jumps do not reach that far here. Stacks that such a part is in count as unmatched, or lack a call. */
#include "sampler/interpreter/cold_code.h"

#if defined(__aarch64__)

int onstack_cold_code(uint64_t eh_frame_header, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)eh_frame_header, (void)loops;
  return 1;
}

#endif
