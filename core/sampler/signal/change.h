/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Changes of a signal's action: which trampoline comes next, and how it is installed. Ordinary threads, under the lock of all
 * copies; an `action` may be another copy's.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_CHANGE_H
#define ONSTACK_SAMPLER_SIGNAL_CHANGE_H

#include "sampler/signal/copy.h"
#include "platform/defs.h"
#include "platform/sys.h"

#include <string.h>

/* ---- trampolines, and what is kept for each (owners.h) ---- */

/* What lies below once `newest` has come on top of all that was. */
ONSTACK_INTERNAL onstack_below onstack_below_add(const onstack_below *below, onstack_previous *newest);

/* The trampoline that stands for `below`: the one that had it already, else one that no owner holds, or that was installed
   longest ago; from now on a signal that comes in by it is passed on to that. */
ONSTACK_INTERNAL uint32_t onstack_trampoline_choose(onstack_action *action, const onstack_below *below);

/* Another one that stands for the same, to be installed in its place: of who comes at that very moment the one that was
   there is the previous action, by which it leaves. */
ONSTACK_INTERNAL uint32_t onstack_trampoline_another(onstack_action *action, uint32_t trampoline);

/* It is installed now, and whoever comes next finds it. */
ONSTACK_INTERNAL void onstack_trampoline_use(onstack_action *action, uint32_t trampoline);

/* Its owner has left, and so have those who came after. */
ONSTACK_INTERNAL void onstack_trampoline_put_back(onstack_action *action, uint32_t trampoline);

/* From now on a signal that comes in by it is passed on to `below`. */
ONSTACK_INTERNAL void onstack_trampoline_publish(onstack_action *action, uint32_t trampoline, const onstack_below *below);

/* The host has put SIG_DFL or SIG_IGN there: whoever was known has lost the signal, whichever of ours its
   previous action was. */
ONSTACK_INTERNAL void onstack_trampolines_forget(onstack_action *action, const onstack_below *unowned);

static inline uint64_t onstack_trampoline_address(const onstack_copy *copy, uint32_t trampoline) {
  return (uint64_t)(uintptr_t)copy->trampoline + (uint64_t)trampoline * ONSTACK_TRAMPOLINE_BYTES;
}

/* ---- changes ---- */

/*
 * Linux has no compare and swap of actions: between a look at the action and its change other threads go on. The kernel says
 * with each change what was there, so an owner that has come or left since the look is not lost. docs/SIGNALS-INTERNALS.md has
 * the counterexamples to anything simpler.
 */

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

/*
 * Installs, in one step, `handler` with these flags (SA_SIGINFO, SA_ONSTACK, SA_RESTART, SA_NODEFER) and every signal blocked,
 * but with SA_NODEFER its own. `*installed` is the action as the kernel keeps it; `*was` what was there at the instant of the
 * change, which is not `now`, the action that the caller saw, if another thread came between. Once libc has been met (the first
 * call) the kernel writes `*was` itself. Returns 0 or -errno, and then nothing has changed.
 */
ONSTACK_INTERNAL int onstack_install(int signal, uint64_t handler, int flags, const struct onstack_kernel_sigaction *now,
                                     struct onstack_kernel_sigaction *installed, struct onstack_kernel_sigaction *was);

#endif
