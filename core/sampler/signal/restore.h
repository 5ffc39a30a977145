/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the last stop leaves behind, and the child of a fork. */
#ifndef ONSTACK_SAMPLER_SIGNAL_RESTORE_H
#define ONSTACK_SAMPLER_SIGNAL_RESTORE_H

#include "sampler/signal/on_top.h"

/*
 * The last session has ended: who is to have the action? A newer owner stays, and so does a copy that runs. An owner that
 * has put something back a moment ago is not the next owner. Where timers of ours tick on, it stays: they would kill over
 * SIG_DFL, and an owner would take them for its own; as a pass-through we know them and drop them. Ordinary threads, under the
 * lock of all copies.
 */
ONSTACK_INTERNAL void onstack_action_leave(int signal, onstack_action_owner *owner);

/* The next release is the last one, and will put SIG_DFL back as far as can be seen now. Under the control lock. */
ONSTACK_INTERNAL bool onstack_action_ends_in_default(int signal);

/* In the child of a fork: puts back every action that is ours, or whose restoration was under way. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_action_after_fork(void);

#endif
