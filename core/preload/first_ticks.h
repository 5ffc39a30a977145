/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first ticks of a process, before it has a session. A session costs a process some milliseconds: a buffer, tables, names,
 * a file. A server's child that answers one connection often lives no longer, nor do most of the programs that a build
 * executes. So a process begins with a timer alone, and gets its session when it has used 20 ms of CPU time.
 *
 * The child of a process with a session walks its stacks with the rules that fork has copied, and puts the addresses into
 * memory that it shares with that process (first_ticks_store.c). Its session takes them back when it begins. What is there for
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
#include "platform/loader.h"
#include "sampler/api/session.h"
#include "sampler/api/statistics.h"
#include "onstack/profile.h"

#include <signal.h>
#include <ucontext.h>

/* Before fork: a process that is alone gets its session, so that its children share with it. Signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_before_fork(void);

/* In the child of a fork, before any other call here, because timers are not inherited. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_forked(void);

/* Begins, if there is memory to put ticks into (first_ticks_store.c). The handler calls `enough` once, when the session is
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

/* ---- where they are kept ---- */

/*
 * Where first ticks are kept until a profile takes them. first_ticks.c fills it in the handler, first_ticks_store.c empties it.
 *
 * A process with a session shares one store with all its children. A child may have given up rights that its siblings still
 * have, so the store holds no bytes of a stack: it holds addresses of code, which lies at the same place in all of them, the
 * thread's name and its id. A child may also write anything there, so the parent copies an entry before it looks at it, and
 * believes no more than it can check: addresses of its own modules, no time to come, and no more CPU time than all processors
 * had.
 *
 * A process that has no session yet and shares with none keeps its stacks in memory of its own.
 */

/* A session of this process samples CPU time: from here on its children share memory with it. Context: the keeper. */
ONSTACK_INTERNAL void onstack_first_ticks_open(const onstack_session *session);

/* The session is about to end: children without a session get one with their next tick. Signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_close(void);

/* Gives what children have sampled to the profile: what they have not taken back for a while, or `all`. `session` runs, or is
   NULL. Returns how many samples there were. Context: the keeper. */
ONSTACK_INTERNAL uint32_t onstack_first_ticks_collect(onstack_session *session, onstack_profile *profile, bool all);

/* Makes memory for the ticks of this process itself. Returns false, with nothing left behind, if a session of these options
   has no ticks that can be kept. Context: the constructor. */
ONSTACK_INTERNAL bool onstack_first_ticks_alone(const onstack_options *options);

/* The process has such memory, and no session. Any thread. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_alone(void);

/* Ticks are in that memory: a session has to take them before the process ends or becomes another program. Any thread. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_held(void);

/* Gives this process's ticks to its own profile, unless its parent has them already. Context: the keeper, while the session
   runs. */
ONSTACK_INTERNAL void onstack_first_ticks_take_back(onstack_session *session, onstack_profile *profile);

/* No session can begin: frees the memory, and the ticks that are there are lost. Context: the keeper, after the ticks have
   ended. */
ONSTACK_INTERNAL void onstack_first_ticks_give_up(void);

/* What is in the profile of this process; `unattributed` are ticks that were dropped. Context: the keeper. */
ONSTACK_INTERNAL onstack_statistics_more onstack_first_ticks_count(void);

/* Writes a line of what is in the profile of this process, if there is anything. Returns 0 or what `write` returns. Context:
   the keeper. */
ONSTACK_INTERNAL int onstack_first_ticks_tell(int (*write)(void *data, const void *bytes, size_t length), void *data);

/* For first_ticks.c. */

/* How the session's ticks are walked, or its parent's in the child of a fork. Signal-safe. */
ONSTACK_INTERNAL const onstack_session_walk *onstack_first_ticks_walk(void);

/* There is a place for ticks, and a keeper will take what is put there now. Signal-safe. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_taken(uint64_t now_ns);

/* Makes memory of this process alone for stacks whose rules are missing: its own session will walk them. Without it they stay
   cut. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_prepare(void);

/* Puts a tick there; false if there is no room, or the taker would not know the code. Signal-safe; one at a time. */
ONSTACK_INTERNAL bool onstack_first_ticks_put(uint32_t weight, uint64_t now_ns, ucontext_t *context);

/* Waits until a handler that puts a tick there has left, and returns true; false if it does not leave. */
ONSTACK_INTERNAL bool onstack_first_ticks_await_handler(void);

/* Before fork: makes the memory that is shared, once. Signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_store_before_fork(void);

/* In the child of a fork. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_store_forked(void);

#endif
