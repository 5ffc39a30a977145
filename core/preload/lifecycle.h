/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What happens to the process, as far as it can be seen: begin, fork, exec, the several ends. */
#ifndef ONSTACK_PRELOAD_LIFECYCLE_H
#define ONSTACK_PRELOAD_LIFECYCLE_H

#include "platform/defs.h"

/* How long an end waits for the keeper, in seconds. exit() runs in an ordinary thread, and a large program's symbols take
   their time; the others may come from a signal handler that interrupted the allocator, and then nothing will come. */
#define ONSTACK_LIFECYCLE_EXIT_SECONDS 60
#define ONSTACK_LIFECYCLE_ABRUPT_SECONDS 5

/* In the child, once every handler of fork has run. Preserves errno. */
ONSTACK_INTERNAL void onstack_lifecycle_forked(void);

/* Writes the profile so far. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_lifecycle_save(void);

/*
 * Before this process becomes another program: writes the profile so far. Returns the environment for it, as
 * onstack_environment_for_exec makes it; `given` itself where nothing is changed. Async-signal-safe.
 */
ONSTACK_INTERNAL char *const *onstack_lifecycle_before_exec(char *const given[]);

/* It has failed: the environment that was returned is not needed any more. Keeps errno. */
ONSTACK_INTERNAL void onstack_lifecycle_failed_exec(char *const given[], char *const made[]);

#endif
