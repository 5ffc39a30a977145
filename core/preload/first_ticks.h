/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first ticks of a process, before it has a session. A session costs a process some milliseconds: a buffer, tables, names,
 * a file. A server's child that answers one connection often lives no longer, nor do most of the programs that a build
 * executes. So a process begins with a timer alone, and gets its session when it has used 20 ms of CPU time.
 *
 * The child of a process with a session walks its stacks with the rules that fork has copied, and puts the addresses into
 * memory that it shares with that process (first_ticks_store.h). Its session takes them back when it begins. What is there for
 * a while belongs to a child that has ended or rests, and that process takes it into its own profile.
 *
 * A program that was executed, and a child that it forks before its session, copy their stacks into memory of their own. The
 * session takes them when it begins. If the process ends or becomes another program before, a session begins just to write
 * them.
 *
 * First ticks are of the CPU clock alone: other clocks also sample threads that sleep, and a heap's samples belong to one
 * process.
 */
#ifndef ONSTACK_PRELOAD_FIRST_TICKS_H
#define ONSTACK_PRELOAD_FIRST_TICKS_H

#include "platform/defs.h"

#include <signal.h>

/* Before fork: a process that is alone gets its session, so that its children share with it. Signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_before_fork(void);

/* In the child of a fork, before any other call here, because timers are not inherited. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_forked(void);

/* Begins, if there is memory to put ticks into (first_ticks_store.h). The handler calls `enough` once, when the session is
   due. `base_ns` is CPU time of the process that the ticks do not stand for. Returns false, with nothing left behind, if there
   is no such memory or no timer. Async-signal-safe. */
ONSTACK_INTERNAL bool onstack_first_ticks_begin(void (*enough)(void), uint64_t base_ns);

/* CPU time of the process since they began, without that of our own threads. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_first_ticks_used_ns(void);

/* `enough` was called, or is about to be. Any thread. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_over(void);

/* Ends. Returns the CPU time of the process that its samples stand for, in nanoseconds; 0 if there were none. Ending again
   changes nothing. Context: whoever lets a session begin, before that uses CPU time. Signal-safe. */
ONSTACK_INTERNAL uint64_t onstack_first_ticks_end(void);

/* In the handler of SIGPROF: true if it was such a tick. Signal-safe, with every signal blocked. */
ONSTACK_INTERNAL bool onstack_first_ticks_take(const siginfo_t *info, void *context);

#endif
