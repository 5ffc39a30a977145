/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The walkers' side of platform/code_source_ops.h. */
#ifndef ONSTACK_SAMPLER_UNWIND_CODE_SOURCE_H
#define ONSTACK_SAMPLER_UNWIND_CODE_SOURCE_H

#include "platform/code_source_ops.h"
#include "sampler/unwind/memory.h"

/* The one in use. */
ONSTACK_INTERNAL_DATA const onstack_code_source *onstack_code_source_used;

/* Follows the chain of frame pointers, and where that ends, runtimes whose way of entering such code is known. */
ONSTACK_INTERNAL_DATA const onstack_code_source onstack_code_source_frame_pointers;

/* Whether such code may be called from this return address, by a frame record of its own. Each processor has its own.
   Signal-safe. */
ONSTACK_INTERNAL bool onstack_code_record_is_own(uint64_t return_address);

/* From the outermost frame of such code, which cleared the frame pointer, with SP behind its return address, to whoever
   entered it, as a step; ONSTACK_TRUNCATED_STACK_SWITCH: not known. Each processor has its own. Signal-safe. */
ONSTACK_INTERNAL onstack_truncation onstack_code_leave_guest(onstack_code_frame *frame, onstack_memory *memory);

#endif
