/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first ticks of a process, before it has a session. A session costs a process some milliseconds: a buffer, tables, names,
 * a file. A server's child that answers one connection often lives no longer, nor does most of what a build executes. So a
 * process begins with a timer alone. With the tick that makes its CPU time 20 ms it gets its session, which takes them.
 *
 * In the child of a process with a session they are walked by the rules that fork has copied, and lie in memory that both
 * share. Where a rule is missing the stack is kept (handler/tick/kept.h), and walked again by who takes the tick. What has lain
 * there for a while the parent's keeper takes into its own profile: there the addresses mean the same.
 *
 * In a program that was executed, and a child that it forks before its session, all stacks are kept. If it ends, or becomes
 * another program, with any, it begins a session just to walk and write them.
 *
 * On the CPU clock alone: on the others who sleeps is sampled as well, and a heap's samples are of one process.
 */
#ifndef ONSTACK_PRELOAD_FIRST_TICKS_H
#define ONSTACK_PRELOAD_FIRST_TICKS_H

#include "base/defs.h"

#include <signal.h>

/* Before fork. A process that is alone gets its session, as children of one with a session need none of theirs. Signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_before_fork(void);

/* In the child of a fork, before anything else here: no timer is inherited. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_forked(void);

/* Begins, where there is a place for them (first_ticks_store.h). `enough` is called once, in the handler, when it is time for a
   session. `base_ns`: CPU time of the process that they do not stand for. False: there is nobody to share with, or no timer;
   nothing is left. Async-signal-safe. */
ONSTACK_INTERNAL bool onstack_first_ticks_begin(void (*enough)(void), uint64_t base_ns);

/* CPU time of the process since they began, that of our own threads left out. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_first_ticks_used_ns(void);

/* `enough` was called, or is about to be. Any thread. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_over(void);

/* Ends. Returns the CPU time of the process that its samples stand for, in nanoseconds; 0: there were no such ticks. Ending
   again changes nothing. Signal-safe; by whoever lets a session begin, before that uses CPU time. */
ONSTACK_INTERNAL uint64_t onstack_first_ticks_end(void);

/* In the handler of SIGPROF: true if it was such a tick. Signal-safe, with every signal blocked. */
ONSTACK_INTERNAL bool onstack_first_ticks_take(const siginfo_t *info, void *context);

#endif
