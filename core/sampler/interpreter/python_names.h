/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_PYTHON_NAMES_H
#define ONSTACK_SAMPLER_INTERPRETER_PYTHON_NAMES_H

#include "onstack/onstack.h"

#include "platform/defs.h"

/* onstack_frame_provider.describe; `data` is not used. */
ONSTACK_INTERNAL int onstack_python_describe(void *data, const onstack_interpreted_frame *frame, onstack_frame_text *text);

/* Whether the frames that are copied are those of a thread's innermost calls of the loop: up to 3.11 a thread that runs a
   subinterpreter shows the main one's. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_python_is_innermost(void);

#endif
