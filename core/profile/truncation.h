/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is said of stacks that were cut short. All strings are static. */
#ifndef ONSTACK_PROFILE_TRUNCATION_H
#define ONSTACK_PROFILE_TRUNCATION_H

#include "platform/defs.h"

/*
 * The name of the frame that stands in for the missing callers of a stack cut short, so that nobody takes its last
 * frame for a root. NULL where none is missing (the stack is whole) or none was asked for.
 */
ONSTACK_INTERNAL const char *onstack_profile_truncation_frame(uint32_t truncation);

/* The reason's key in lines of statistics; NULL: none. */
ONSTACK_INTERNAL const char *onstack_profile_truncation_key(uint32_t truncation);

#endif
