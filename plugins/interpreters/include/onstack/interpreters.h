/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libonstack-interpreters: providers of frames for CPython 3.9 to 3.13 and PHP 8.1 to 8.5. */
#ifndef ONSTACK_INTERPRETERS_H
#define ONSTACK_INTERPRETERS_H

#include "onstack/interpreter.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Registers both providers by onstack_frame_provider_register: sessions that start later with `interpreters`, and dumps, have
 * frames of these languages. Calling it again changes nothing.
 * Context: any thread. Errors: -ENOSPC if other providers have taken the room.
 */
ONSTACK_API int onstack_interpreters_register(void);

#ifdef __cplusplus
}
#endif

#endif
