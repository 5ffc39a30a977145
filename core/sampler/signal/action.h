/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The signal's action for the sessions of this copy: first start, look, last stop. Ordinary threads, under the control lock,
 * unless it says otherwise. The handler's view of the same thing is sampler/signal/owners.h.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_ACTION_H
#define ONSTACK_SAMPLER_SIGNAL_ACTION_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/* 0, or ONSTACK_E_SIGNAL for a signal that cannot be caught, is reserved by libc, or reports a fault. */
ONSTACK_INTERNAL int onstack_action_check_signal(int signal);

/* One more session on this signal; the first installs the handler. Returns 0 or -errno. */
ONSTACK_INTERNAL int onstack_action_acquire(int signal, bool on_stack, onstack_restore restore);

/* One session less; the last restores, as the first one asked for. Its timers are deleted already. */
ONSTACK_INTERNAL void onstack_action_release(int signal);

/*
 * Displacement: somebody installed another action over ours (a Go c-archive does so in StartCPUProfile), or put our
 * pointer back with other flags when leaving. Goes back on top, with that owner underneath; never over another copy of
 * this library, whose handler passes our ticks on, and not for ever against an owner that insists as well. Whether another
 * action stood there.
 */
ONSTACK_INTERNAL bool onstack_action_tend(int signal);

/* The handler that the stand-in stands for has changed (onstack_own_stands_in): the installed action restarts system calls
   if that one does. Where another thread holds the lock for long, the next look does it. Signal-safe with every signal
   blocked. */
ONSTACK_INTERNAL void onstack_action_follow_host(int signal);

/* A second has passed: earlier returns to the top are forgiven. */
ONSTACK_INTERNAL void onstack_action_end_back_off(int signal);

/* Blocks or restores, in the calling thread, every signal that a session uses. For fork. Signal-safe. */
ONSTACK_INTERNAL void onstack_action_block(uint64_t *old_mask);
ONSTACK_INTERNAL void onstack_action_unblock(uint64_t old_mask);

/* The next release is the last one, and will put SIG_DFL back as far as can be seen now. Under the control lock. */
ONSTACK_INTERNAL bool onstack_action_ends_in_default(int signal);

/* In the child of a fork: puts back every action that is ours, or whose restoration was under way. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_action_after_fork(void);

#endif
