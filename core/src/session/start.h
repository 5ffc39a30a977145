/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For programs that did not ask for a session: what lies in the same library may call it. */
#ifndef ONSTACK_SESSION_START_H
#define ONSTACK_SESSION_START_H

#include "base/defs.h"
#include "onstack/onstack.h"

/*
 * As onstack_session_start, but ticks begin before unwind rules are derived, which takes some 10 ms a MiB of .eh_frame:
 * the drain thread derives them while the program runs. Stacks of the first moments are cut (PENDING) rather than missing.
 */
ONSTACK_INTERNAL int onstack_session_start_at_once(const onstack_options *options, onstack_session **out);

/* Of the samples that the session's clock makes. Any thread. */
ONSTACK_INTERNAL onstack_kind onstack_session_kind(const onstack_session *session);

#endif
