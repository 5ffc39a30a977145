/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Linux has no compare and swap of actions: between a look at the action and its change other threads go on. The kernel says
 * with each change what was there, so an owner that has come or left since the look is not lost. docs/SIGNALS-INTERNALS.md has
 * the counterexamples to anything simpler. Ordinary threads, under the lock of all copies.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_CHANGE_H
#define ONSTACK_SAMPLER_SIGNAL_CHANGE_H

#include "sampler/signal/copy.h"

#include <string.h>

static inline bool onstack_action_is_same(const struct onstack_kernel_sigaction *a,
                                          const struct onstack_kernel_sigaction *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

/* `to` in place of `now`, both without trampolines to choose; who came at that very moment is put back. */
ONSTACK_INTERNAL void onstack_change_exchange(int signal, const struct onstack_kernel_sigaction *to,
                                              const struct onstack_kernel_sigaction *now);

/* That trampoline is about to be installed in place of `now`. Until the end of the change, handlers that come in by it go by
   what the kernel writes to where the result points. `action` may be another copy's. */
ONSTACK_INTERNAL struct onstack_kernel_sigaction *onstack_change_begin(onstack_action *action, uint32_t trampoline,
                                                                       const struct onstack_kernel_sigaction *now);

/* What is published stands from here on, as far as a handler has not taken it already: a one-shot has had its signal. */
ONSTACK_INTERNAL void onstack_change_end(onstack_action *action);

#endif
