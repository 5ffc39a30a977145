/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Changes of a signal's action: which trampoline comes next, and how it is installed. Ordinary threads, under the lock of all
 * copies; an `action` may be another copy's.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_CHANGE_H
#define ONSTACK_SAMPLER_SIGNAL_CHANGE_H

#include "onstack/onstack.h"
#include "platform/defs.h"
#include "platform/sys.h"
#include "sampler/signal/copy.h"

#include <signal.h>
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

/* Goes on top of the action that a look has read, by the trampoline that stands for what lies below then. Ordinary threads,
   under the lock of all copies. */

typedef struct onstack_action_owner {
  uint32_t sessions; /* that use it */
  uint32_t used;     /* ours was installed once: in the child of a fork the action may be ours */
  uint32_t returns;  /* how often in a row we went back on top */
  bool on_stack;
  onstack_restore restore; /* of the session that installed it */
} onstack_action_owner;

ONSTACK_INTERNAL_DATA onstack_action_owner onstack_action_owners[ONSTACK_SIGNALS];

static const uint64_t onstack_action_default = (uint64_t)(uintptr_t)SIG_DFL;
static const uint64_t onstack_action_ignore = (uint64_t)(uintptr_t)SIG_IGN;

static inline bool onstack_action_is_ours(const struct onstack_kernel_sigaction *action) {
  return onstack_trampoline_at(&onstack_copy_self, action->handler) < ONSTACK_TRAMPOLINES;
}

static inline bool onstack_action_is_unowned(const struct onstack_kernel_sigaction *action) {
  return action->handler == onstack_action_default || action->handler == onstack_action_ignore;
}

/* The kept entry for an action, fresh (a one-shot not yet spent); NULL when there are too many. */
ONSTACK_INTERNAL onstack_previous *onstack_action_keep(const struct onstack_kernel_sigaction *action);

/* As onstack_copies_meet, but that our own copy is none. */
ONSTACK_INTERNAL int onstack_action_meet(const struct onstack_kernel_sigaction *now, onstack_copy **copy);

/* Whether threads of ours may take the signal: a handler of the host's is never to run on one. `action` may be another
   copy's. */
ONSTACK_INTERNAL void onstack_action_check_dispute(int signal, onstack_action *action, uint32_t trampoline);

/* The previous handler's choice about EINTR stays as it was; over SIG_DFL and SIG_IGN system calls restart. */
ONSTACK_INTERNAL bool onstack_action_restarts(const struct onstack_kernel_sigaction *below);
ONSTACK_INTERNAL void onstack_action_set_restart(struct onstack_kernel_sigaction *action, bool restarts);

/*
 * An owner has put back its previous action: one of our trampolines, with flags and mask of its own perhaps, or one of a
 * copy that has stopped since. What lay below that lies below us again. Returns the trampoline that stands for it.
 */
ONSTACK_INTERNAL uint32_t onstack_action_put_back(int signal, const struct onstack_kernel_sigaction *now,
                                                  const onstack_copy *copy);

/* The trampoline for going on top of what stands where ours was, or ONSTACK_TRAMPOLINES. */
ONSTACK_INTERNAL uint32_t onstack_action_trampoline_for(int signal, onstack_action_owner *owner,
                                                        const struct onstack_kernel_sigaction *now,
                                                        const onstack_copy *copy);
/* The same for whoever came at the very moment of a change. *result: 0, or why nothing stands for it. */
ONSTACK_INTERNAL uint32_t onstack_action_trampoline_for_late(int signal, onstack_action_owner *owner,
                                                             const struct onstack_kernel_sigaction *was, int *result);

/*
 * Installs ours on top of `now`, by that trampoline; then of whoever came at that very moment, unless it is one that we stay
 * below. Ours may be an owner's previous action by then: it stands for what lies below the next one, too. 0 or -errno.
 */
ONSTACK_INTERNAL int onstack_action_reinstall(int signal, onstack_action_owner *owner, uint32_t trampoline,
                                              struct onstack_kernel_sigaction now);

/* Ours, as it is installed, is not what it is to be: with the flags of now. */
ONSTACK_INTERNAL bool onstack_action_is_outdated(int signal, const onstack_action_owner *owner);

/*
 * The last session has ended: who is to have the action? A newer owner stays, and so does a copy that runs. An owner that
 * has put something back a moment ago is not the next owner. Where timers of ours tick on, it stays: they would kill over
 * SIG_DFL, and an owner would take them for its own; as a pass-through we know them and drop them. Ordinary threads, under the
 * lock of all copies.
 */
ONSTACK_INTERNAL void onstack_action_leave(int signal, onstack_action_owner *owner);

#endif
