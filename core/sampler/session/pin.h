/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_SAMPLER_SESSION_PIN_H
#define ONSTACK_SAMPLER_SESSION_PIN_H

#include "platform/defs.h"

/*
 * Keeps the object that holds this code mapped for ever: the handler may be reached after the last stop (a pending
 * signal, an owner that restores our pointer), also when the library is a static part of a plugin that is closed.
 * Idempotent. Under the control lock, or before this library has a thread.
 */
ONSTACK_INTERNAL void onstack_pin_self(void);

#endif
