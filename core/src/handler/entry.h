/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_HANDLER_ENTRY_H
#define ONSTACK_HANDLER_ENTRY_H

#include "base/defs.h"

#include <signal.h>

/*
 * What control/action.c installs, for every signal and session of this copy: a jump to the handler, with a mark of 16
 * bytes right before it, by which one copy of the library recognizes another's handler. There are two of them, the same
 * but for their address: ours goes over a newer owner by the other one, so that the owner, when it leaves and puts back
 * what it had found, is seen to have left.
 */
extern __attribute__((visibility("hidden"))) void onstack_handler_trampoline(int signal, siginfo_t *info, void *context);
extern __attribute__((visibility("hidden"))) void onstack_handler_other_trampoline(int signal, siginfo_t *info,
                                                                                   void *context);

/* The signal handler itself. */
ONSTACK_INTERNAL void onstack_handler_entry(int signal, siginfo_t *info, void *context);

#endif
