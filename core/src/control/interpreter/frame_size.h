/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_CONTROL_INTERPRETER_FRAME_SIZE_H
#define ONSTACK_CONTROL_INTERPRETER_FRAME_SIZE_H

#include "base/defs.h"

/* Bytes between SP, behind the prologue of the function that begins at `address`, and its frame record; 0: it keeps none, and
   its rules say how far SP is from its caller's. Each processor has its own. Ordinary threads. */
ONSTACK_INTERNAL uint64_t onstack_frame_size(uint64_t address);

#endif
