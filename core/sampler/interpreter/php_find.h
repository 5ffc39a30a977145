/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_PHP_FIND_H
#define ONSTACK_SAMPLER_INTERPRETER_PHP_FIND_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/* onstack_frame_provider.prepare; `data` is not used. Errors: ONSTACK_E_UNSUPPORTED, a version or a build that is not known. */
ONSTACK_INTERNAL int onstack_php_prepare(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]);

/* Whether the loops that were told are all the code that is known by now: a compiler may have begun. Any thread. */
ONSTACK_INTERNAL bool onstack_php_lives(const onstack_loop_code *loops, uint32_t count);

#endif
