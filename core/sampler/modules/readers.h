/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether anybody may be reading rule tables and Go function tables that are not in use any more. Walks on demand are known
 * here; the handlers of sessions are known to whoever samples threads.
 */
#ifndef ONSTACK_SAMPLER_MODULES_READERS_H
#define ONSTACK_SAMPLER_MODULES_READERS_H

#include "platform/defs.h"

/* True if everybody who may have seen a table before the call has left. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_readers_have_left(void);

/* `left` answers for the handlers. Once, before the first of them. */
ONSTACK_INTERNAL void onstack_readers_are_asked_by(bool (*left)(void));

#endif
