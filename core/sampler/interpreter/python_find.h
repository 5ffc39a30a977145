/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_PYTHON_FIND_H
#define ONSTACK_SAMPLER_INTERPRETER_PYTHON_FIND_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/* onstack_frame_provider.prepare; `data` is not used. Errors: ONSTACK_E_UNSUPPORTED, a version or a build that is not known. */
ONSTACK_INTERNAL int onstack_python_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]);

/* Whether the one that was prepared last is there, and has not ended or begun anew (Py_Finalize, Py_Initialize). Microseconds;
   ordinary threads. `loops` are not used. */
ONSTACK_INTERNAL bool onstack_python_lives(const onstack_loop_code *loops, uint32_t count);

#endif
