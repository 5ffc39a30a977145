/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first ticks of a child of fork, before it has a session of its own. A session costs a process some milliseconds: a
 * buffer, tables, names, a file. A server's child that answers one connection often lives no longer. So it begins with a timer
 * alone. Its ticks are walked by the rules that fork has copied, and lie in memory that it shares with the process that has
 * the session. Where a rule is missing the stack is kept (handler/tick/kept.h), and walked again by who takes the tick. With
 * the tick that makes its CPU time 20 ms the child gets its own session, and takes them. What has lain there for a while that
 * process's keeper takes into its own profile: there the addresses mean the same.
 *
 * On the CPU clock alone: on the others who sleeps is sampled as well, and a heap's samples are of one process.
 */
#ifndef ONSTACK_PRELOAD_FIRST_TICKS_H
#define ONSTACK_PRELOAD_FIRST_TICKS_H

#include "base/defs.h"

#include <signal.h>

/* In the child of a fork, before anything else here: no timer is inherited. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_forked(void);

/* In the child of a fork: begins. `enough` is called once, in the handler, when it is time for a session. False: there is
   nobody to share with, or no timer; nothing is left. Async-signal-safe. */
ONSTACK_INTERNAL bool onstack_first_ticks_begin(void (*enough)(void));

/* `enough` was called, or is about to be. Any thread. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_over(void);

/* Ends, and forgets. Returns the CPU time of the process that its samples stand for, in nanoseconds; 0: there were no such
   ticks. The keeper, before it starts the session. */
ONSTACK_INTERNAL uint64_t onstack_first_ticks_end(void);

/* In the handler of SIGPROF: true if it was such a tick. Signal-safe, with every signal blocked. */
ONSTACK_INTERNAL bool onstack_first_ticks_take(const siginfo_t *info, void *context);

#endif
