/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_HANDLER_TICK_ENTRY_H
#define ONSTACK_HANDLER_TICK_ENTRY_H

#include "base/defs.h"

#include <signal.h>

/*
 * What control/signal/action.c installs, for every signal and session of this copy: a jump to the handler, with a mark right
 * before it, by which one copy of the library recognizes another's handler (copy.h). There are ONSTACK_TRAMPOLINES of
 * them (handler/signal/forward.h says why), this far apart; declared is the first.
 */
#define ONSTACK_TRAMPOLINE_BYTES 64u
extern __attribute__((visibility("hidden"))) void onstack_handler_trampoline(int signal, siginfo_t *info, void *context);

/* What lies before each, read by other copies. */
typedef struct onstack_handler_head {
  int64_t copy; /* that copy's onstack_copy, as the distance from here */
  uint64_t number;
  uint64_t mark[2];
} onstack_handler_head;

/* The signal handler itself; `trampoline` is the one that it came in by. */
ONSTACK_INTERNAL void onstack_handler_entry(int signal, siginfo_t *info, void *context, uint32_t trampoline);

/* What it does once the signal is blocked and the context known. */
ONSTACK_INTERNAL void onstack_handler_go_on(int signal, siginfo_t *info, void *context, uint32_t trampoline);

/* A tick of this copy that came in through another one's handler (onstack_copy.take). Signal-safe. */
ONSTACK_INTERNAL bool onstack_handler_take(int signal, siginfo_t *info, void *context);

#endif
