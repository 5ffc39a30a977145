/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The host's own action for SIGPROF. PHP (max_execution_time), V8 and others install a handler for it while they run, in
 * place of ours, and take every signal for their own: one tick that reaches PHP's is a fatal error of the page. So under
 * the preload the host's sigaction(SIGPROF) does not reach the kernel. What it asks for is kept here, a handler of ours
 * stands in the kernel before the session begins, and foreign signals come to it as to any action that a session finds.
 *
 * Raw system calls are not seen (Go): those hosts displace the session's handler as without a preload, and the session
 * deals with it. While the host's action is SIG_DFL foreign signals are swallowed, as the library does over SIG_DFL.
 */
#ifndef ONSTACK_PRELOAD_HOST_ACTION_H
#define ONSTACK_PRELOAD_HOST_ACTION_H

#include "platform/defs.h"

#include <signal.h>

/* Takes the kernel's action over. `on_stack`: with SA_ONSTACK. In the constructor, where a profile is wanted. */
ONSTACK_INTERNAL void onstack_host_action_begin(bool on_stack);

/* The child of a fork has an action of its own, with the same value. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_host_action_forked(void);

/* True if this call is handled here: SIGPROF, taken over, in the same process (the child of vfork shares our
   memory but not the action: it talks to the kernel). Signal-safe. */
ONSTACK_INTERNAL bool onstack_host_action_is_ours(int signal);

/* True if the host's own action for SIGPROF is a handler. Signal-safe. */
ONSTACK_INTERNAL bool onstack_host_action_has_handler(void);

/* sigaction(SIGPROF) on what is kept. Either may be NULL. Signal-safe. */
ONSTACK_INTERNAL void onstack_host_action_change(const struct sigaction *action, struct sigaction *old);

#endif
