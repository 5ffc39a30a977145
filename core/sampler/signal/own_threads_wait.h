/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The other side of own_threads.h: a signal's action is to change while threads of ours have it open, or a thread
   of ours has been killed. */
#ifndef ONSTACK_SAMPLER_SIGNAL_OWN_THREADS_WAIT_H
#define ONSTACK_SAMPLER_SIGNAL_OWN_THREADS_WAIT_H

#include "sampler/signal/own_threads.h"

/* After `undisputed` of the signal's action was taken away: returns when no thread of ours has the signal open. One that
   waits for a lock (the loader's) which the caller may hold is not waited for longer than 0.1 s. */
ONSTACK_INTERNAL void onstack_own_wait_closed(int32_t signal);

/* Forgets the threads of ours that have ended without onstack_own_leave: a seccomp filter for all threads
   (SECCOMP_FILTER_FLAG_TSYNC) has killed them. Returns true if there was one, now or before: what it had locked stays locked.
   Ordinary threads. */
ONSTACK_INTERNAL bool onstack_own_forget_killed(void);

#endif
