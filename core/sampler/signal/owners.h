/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The signal action that all sessions of one signal share, as the handler sees it, and what lies underneath. Installed and
 * restored by the other files of this folder; other copies of the library read it too (copy.h).
 *
 * All of it is static and never freed: a handler of ours can run after the last stop (pending signal, an owner that
 * restores our pointer), and is then a pass-through.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_OWNERS_H
#define ONSTACK_SAMPLER_SIGNAL_OWNERS_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "platform/sys.h"

#include <signal.h>

#define ONSTACK_SIGNALS 65 /* 1 .. 64 */

/* The action of another owner. Immutable once a handler may see it (but `spent`), so that handler, flags and mask always
   fit together. */
typedef struct onstack_previous {
  struct onstack_kernel_sigaction action;
  uint32_t spent; /* SA_RESETHAND: it has had its one signal */
} onstack_previous;

/*
 * Ours is installed by way of one of sixteen trampolines, which differ in nothing but their address and what is kept for
 * each: what lay underneath when it was installed. For an owner that comes later that address is the previous action. When
 * it calls it (it chains), or puts it back (it leaves), perhaps after our last stop, that tells since when it has been
 * there, and who comes next: the same as if the previous action of each owner were the one before it.
 */
#define ONSTACK_TRAMPOLINES 16u

/* The newest first: the previous action there, and who was known before it; a signal that comes in again by the same
   trampoline while it is under way goes to the next. NULL: no more. */
#define ONSTACK_ACTION_LEVELS 3u
typedef struct onstack_below {
  onstack_previous *levels[ONSTACK_ACTION_LEVELS];
} onstack_below;

/* Other copies of the library read and write it (copy.h), under the lock that they share. */
typedef struct onstack_action {
  uint32_t running; /* a session of this copy uses the signal (dekker) */
  uint32_t current; /* the trampoline that is installed, or was last */
  uint32_t visited; /* a newer owner came or went under this run: its own timers may outlive its profile */
  uint32_t held;    /* bits: trampolines that may be an owner's previous action yet */
  uint32_t sequence, sequences[ONSTACK_TRAMPOLINES]; /* when each was installed last; 0: never */
  struct onstack_kernel_sigaction ours;              /* while `running`: as it was installed last */
  onstack_below below[ONSTACK_TRAMPOLINES];
  uint32_t undisputed; /* ours is installed, and no other owner has the signal (dekker; own_threads.h) */
  /* A trampoline is being installed: its number and one in the lowest byte, else 0; above, how often this has been written.
     Somebody may have come or left since the look by which it was chosen, and the thread that installs it may be waiting
     for a processor: until that thread has set it right, a handler goes by what the kernel says that was replaced. */
  uint32_t changing;
  uint64_t expected; /* the handler that the look had read */
  /* Of each trampoline, so that it stays while a handler reads it. Written by the kernel, in the system call itself. */
  onstack_previous replaced[ONSTACK_TRAMPOLINES];
} onstack_action;

ONSTACK_INTERNAL_DATA onstack_action onstack_actions[ONSTACK_SIGNALS];

/* What became of signals that entered here; no other copy reads it. */
typedef struct onstack_signal_counters {
  uint64_t forwarded;
  uint64_t forwarded_timer;
  uint64_t swallowed;
  uint64_t late;
  uint64_t looped;
} onstack_signal_counters;

ONSTACK_INTERNAL_DATA onstack_signal_counters onstack_signal_counts[ONSTACK_SIGNALS];

/* The trampoline of a value of `changing`, ONSTACK_TRAMPOLINES or more: none is being installed. */
static inline ONSTACK_HANDLER uint32_t onstack_action_changes(uint32_t changing) { return (changing & 0xffu) - 1u; }

/* How a foreign signal is passed on to what lies underneath (owners.h). */

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
