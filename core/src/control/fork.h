/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork() at any instant. The prepare handler takes no lock and waits for nothing: on musl and macOS it runs under the
 * lock of pthread_atfork itself, and a lock of ours could be held by a thread that waits for that one.
 */
#ifndef ONSTACK_CONTROL_FORK_H
#define ONSTACK_CONTROL_FORK_H

#include "base/defs.h"

/* Registers the handlers once. Under the control lock. Returns 0 or -errno. */
ONSTACK_INTERNAL int onstack_fork_prepare(void);

#endif
