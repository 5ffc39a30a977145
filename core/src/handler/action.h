/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The signal action that all sessions of one signal share, as the handler sees it: what lies underneath, and how a
 * foreign signal is passed on to it. Installed and restored by control/action.c.
 *
 * All of it is static and never freed: a handler of ours can run after the last stop (pending signal, an owner that
 * restores our pointer), and is then a pass-through.
 */
#ifndef ONSTACK_HANDLER_ACTION_H
#define ONSTACK_HANDLER_ACTION_H

#include "base/atomics.h"
#include "base/defs.h"
#include "base/sys.h"

#include <signal.h>

#define ONSTACK_SIGNALS 65 /* 1 .. 64 */

/* An action that was found. Immutable once a handler may see it (but `spent`), so that handler, flags and mask always
   fit together. */
typedef struct onstack_found {
  struct onstack_kernel_sigaction action;
  uint32_t spent; /* SA_RESETHAND: it has had its one signal */
} onstack_found;

/*
 * Up to three levels, the newest first: an owner that installed itself over us while we run, and that we went back on
 * top of; what the first start found; and what lay under us when that owner, the found one, took our pointer in an
 * earlier session. A good owner passes signals on to us; they come in again and then go to the next level.
 */
#define ONSTACK_ACTION_LEVELS 3u

/* Other copies of the library read the first four members, and write three of them when they hand over (copy.h). */
typedef struct onstack_action {
  onstack_found *installed; /* how ours was installed last; NULL: no session uses the signal (dekker) */
  onstack_found *levels[ONSTACK_ACTION_LEVELS]; /* from the first on; NULL: no more */
  uint32_t visited; /* a newer owner came under this run: its own timers may outlive its profile */
  uint32_t handed;  /* `levels` are news from a copy that stood above and has stopped */
  uint64_t forwarded;
  uint64_t forwarded_timer;
  uint64_t swallowed;
  uint64_t late;
  uint64_t looped;
} onstack_action;

ONSTACK_INTERNAL_DATA onstack_action onstack_actions[ONSTACK_SIGNALS];

/* A signal that is no tick of ours: another copy's tick, or passed to the action that was found, under the mask that its
   owner asked for. Signal-safe as far as the owner's handler is. */
ONSTACK_INTERNAL void onstack_action_forward(int signal, siginfo_t *info, void *context);

/* Members of onstack_copy, see there. */
ONSTACK_INTERNAL bool onstack_action_pass(int signal, siginfo_t *info, void *context);
ONSTACK_INTERNAL bool onstack_action_is_passing(const void *context);

#endif
