/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_CONTROL_INTERPRETER_PYTHON_H
#define ONSTACK_CONTROL_INTERPRETER_PYTHON_H

#include "base/defs.h"
#include "onstack/onstack.h"

/* onstack_frame_provider.prepare; `data` is not used. Errors: ONSTACK_E_UNSUPPORTED, a version or a build that is not known. */
ONSTACK_INTERNAL int onstack_python_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]);

#endif
