/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compilers put what seldom runs of a function elsewhere (gcc, -freorder-blocks-and-partition: `.cold`). */
#ifndef ONSTACK_SAMPLER_INTERPRETER_COLD_CODE_H
#define ONSTACK_SAMPLER_INTERPRETER_COLD_CODE_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/* Writes the parts of the function loops[0] that lie apart behind it, and returns how many pieces there are, with the first.
   `eh_frame_header`: of its object, as loaded; 0: none. Milliseconds; ordinary threads. */
ONSTACK_INTERNAL int onstack_cold_code(uint64_t eh_frame_header, onstack_loop_code loops[ONSTACK_LOOP_CODES]);

#endif
