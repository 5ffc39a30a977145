/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_HANDLER_ENTRY_H
#define ONSTACK_HANDLER_ENTRY_H

#include "base/defs.h"

#include <signal.h>

/* The signal handler that control/action.c installs, for every signal and session of this copy. */
ONSTACK_INTERNAL void onstack_handler_entry(int signal, siginfo_t *info, void *context);

#endif
