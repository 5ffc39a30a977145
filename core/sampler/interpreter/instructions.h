/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What some instructions of an interpreter tell, read by copies: its library may be unmapped at any instant. Each processor has
   its own. Ordinary threads. */
#ifndef ONSTACK_SAMPLER_INTERPRETER_INSTRUCTIONS_H
#define ONSTACK_SAMPLER_INTERPRETER_INSTRUCTIONS_H

#include "platform/defs.h"

#include "onstack/interpreter.h"

/* Of a function that jumps to code which runs in its frame (sampler/unwind/generated_code.h) and begins at `address`: *size
   becomes the bytes between SP, behind the prologue, and its frame record; 0: it keeps none, and its rules say how far SP is
   from its caller's. False: that code moves SP first. */
ONSTACK_INTERNAL bool onstack_instructions_frame(uint64_t address, uint64_t *size);

/* What the function at `address` returns, which does nothing but load a constant of the linker's. False: it does more. */
ONSTACK_INTERNAL bool onstack_instructions_constant(uint64_t address, uint64_t *value);

/* Compilers put what seldom runs of a function elsewhere (gcc, -freorder-blocks-and-partition: `.cold`). */

/* Writes the parts of the function loops[0] that lie apart behind it, and returns how many pieces there are, with the first.
   `eh_frame_header`: of its object, as loaded; 0: none. Milliseconds; ordinary threads. */
ONSTACK_INTERNAL int onstack_cold_code(uint64_t eh_frame_header, onstack_loop_code loops[ONSTACK_LOOP_CODES]);

#endif
