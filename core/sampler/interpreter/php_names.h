/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_PHP_NAMES_H
#define ONSTACK_SAMPLER_INTERPRETER_PHP_NAMES_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/* onstack_frame_provider.describe; `data` is not used. */
ONSTACK_INTERNAL int onstack_php_describe(void *data, const onstack_interpreted_frame *frame, onstack_frame_text *text);

#endif
