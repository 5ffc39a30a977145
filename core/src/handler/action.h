/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The signal action that all sessions of one signal share, as the handler sees it: what was found underneath, and how
 * a foreign signal is passed on to it. Installed and restored by control/action.c.
 *
 * The records are static and never freed: a handler of ours can run after the last stop (pending signal, an owner that
 * restores our pointer), and is then a pass-through.
 */
#ifndef ONSTACK_HANDLER_ACTION_H
#define ONSTACK_HANDLER_ACTION_H

#include "base/atomics.h"
#include "base/defs.h"
#include "base/sys.h"

#include <signal.h>

#define ONSTACK_SIGNALS 65 /* 1 .. 64 */

typedef struct onstack_action {
  uint64_t handler; /* what was found: SIG_DFL, SIG_IGN or a function. Published last by control */
  uint64_t flags;
  onstack_kernel_sigset mask;
  uint64_t forwarded;
  uint64_t forwarded_timer;
  uint64_t swallowed;
  uint64_t late;
  uint64_t looped;
} onstack_action;

ONSTACK_INTERNAL_DATA onstack_action onstack_actions[ONSTACK_SIGNALS];

/* Passes a foreign signal to the action that was found, under the mask that its owner asked for. Signal-safe as far
   as the owner's handler is. */
ONSTACK_INTERNAL void onstack_action_forward(int signal, siginfo_t *info, void *context);

#endif
