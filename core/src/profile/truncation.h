/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_PROFILE_TRUNCATION_H
#define ONSTACK_PROFILE_TRUNCATION_H

#include "base/defs.h"

/*
 * The name of the frame that stands in for the missing callers of a stack cut short, so that nobody takes its last
 * frame for a root. NULL where none is missing (the stack is whole) or none was asked for. Static string.
 */
ONSTACK_INTERNAL const char *onstack_profile_truncation_frame(uint32_t truncation);

#endif
