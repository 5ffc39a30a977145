/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How a foreign signal is passed on to what lies underneath (owners.h). */
#ifndef ONSTACK_SAMPLER_SIGNAL_FORWARD_H
#define ONSTACK_SAMPLER_SIGNAL_FORWARD_H

#include "sampler/signal/owners.h"

#include <signal.h>

/* What lies below that trampoline now: the level-th from above, NULL: no more. Signal-safe. */
ONSTACK_INTERNAL onstack_previous *onstack_action_below(int signal, uint32_t trampoline, uint32_t level);

/* In the child of a fork: what other threads were forwarding there ends nowhere. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_action_forget_flights(void);

/*
 * Calls an owner's handler as the kernel would have: under the mask that it asked for, and on the interrupted stack where it
 * did not ask for the alternate one. Under a mask of everything. Signal-safe as far as that handler is.
 */
ONSTACK_INTERNAL void onstack_action_call(const struct onstack_kernel_sigaction *owner, int signal, siginfo_t *info,
                                          void *context);

/* A signal that is no tick of ours, and came in by that trampoline: another copy's tick, or passed to what lies below the
   trampoline, under the mask that its owner asked for. Signal-safe as far as the owner's handler is. */
ONSTACK_INTERNAL void onstack_action_forward(int signal, siginfo_t *info, void *context, uint32_t trampoline);

#endif
