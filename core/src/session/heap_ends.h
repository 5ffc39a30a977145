/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ends of sampled allocations, on their way to the sink. */
#ifndef ONSTACK_SESSION_HEAP_ENDS_H
#define ONSTACK_SESSION_HEAP_ENDS_H

#include "session/session.h"

/*
 * Tells the sink of all that was freed and whose allocation it has had. Under the consumer lock, after a delivery. False:
 * the sink forked, and this is the child.
 */
ONSTACK_INTERNAL bool onstack_heap_ends_deliver(onstack_session *session, onstack_sink sink, void *data);

#endif
