/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork() at any instant. The prepare handler takes no lock and waits for nothing: on musl and macOS it runs under the
 * lock of pthread_atfork itself, and a lock of ours could be held by a thread that waits for that one.
 */
#ifndef ONSTACK_SAMPLER_API_FORK_H
#define ONSTACK_SAMPLER_API_FORK_H

#include "platform/defs.h"

/* Registers the handlers once. Under the control lock. Returns 0 or -errno. */
ONSTACK_INTERNAL int onstack_fork_prepare(void);

/* `follow` is called in the child when it is clean, on its only thread, with our signals still blocked; not when fork()
   was called inside a sink. Always the same function. */
ONSTACK_INTERNAL void onstack_fork_set_follow(void (*follow)(void));

/* `after_fork` puts labels in order in each child, also one that ran no atfork handlers; only async-signal-safe work. Always
   the same function. */
ONSTACK_INTERNAL void onstack_fork_set_labels(void (*after_fork)(void));

/*
 * Children that ran no atfork handlers (_Fork, raw clone) are put in order when they first call us: before any lock is
 * taken and any thread waited for, since neither need be there. Cheap elsewhere. Any thread; not in a signal handler.
 */
ONSTACK_INTERNAL void onstack_fork_repair(void);

/* As for labels: for what names frames of interpreted languages. */
ONSTACK_INTERNAL void onstack_fork_set_interpreters(void (*after_fork)(void));

#endif
