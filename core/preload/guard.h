/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The keeper opens files all the time: mappings, symbols, thread names, profiles. A host that closes descriptor 0 and
 * opens a file to get it back, or a child that looks at which descriptors it was given, must not meet ours there. So the
 * keeper, and the session's threads that it makes, leave the host's table of descriptors for an empty one of their own.
 *
 * A table that one thread alone has costs the host less, too: without another one that might change it, the kernel takes no
 * reference to a file in each call (fs/file.c, fdget): 5 % of a send and a receive of 64 bytes.
 *
 * What has to be done among the host's is done by the guard, a thread "onstack-guard" that sleeps until then, and while it
 * lives, so does the host's table: libc's exit when the host's last thread has ended. So the first thread makes it when it
 * ends. Where the keeper cannot come by the host's stderr, it makes one at once, which writes there.
 */
#ifndef ONSTACK_PRELOAD_GUARD_H
#define ONSTACK_PRELOAD_GUARD_H

#include "base/sys.h"

#include <stddef.h>

#define ONSTACK_GUARD_LINE 1024u /* what a pipe takes whole, or not (PIPE_BUF, POSIX) */

/*
 * The calling thread gets a table of its own, and those that it makes from now on; a second call does nothing. Not where
 * the kernel cannot (before 5.9), where there is neither stderr nor a guard to be had, or where a descriptor is used on the
 * host's threads and on these: that of the pipe by which stacks are read, or of an allocator that is not libc's (tcmalloc's
 * libunwind has a pipe). Then all stays as it is. Context: the keeper.
 */
ONSTACK_INTERNAL void onstack_guard_take_own_table(void);

/* The keeper's table has a copy of the host's stderr, because many programs close theirs as they end, before the profile is
   written. This takes a table and the copy early, unless that needs a guard. Context: the keeper, when it begins. */
ONSTACK_INTERNAL void onstack_guard_copy_stderr(void);

/* Closes the copy if the host has closed its stderr or has another one: who reads a daemon's pipe waits for its end. Context:
   the keeper, in each of its rounds. */
ONSTACK_INTERNAL void onstack_guard_follow_stderr(void);

/* The host's table stays when its last thread has ended. Context: the process's first thread, which is about to end. */
ONSTACK_INTERNAL void onstack_guard_hold_table(void);

/* A line for stderr, at most ONSTACK_GUARD_LINE bytes, written before this returns. False: the caller shares the host's
   descriptors and does it itself. */
ONSTACK_INTERNAL bool onstack_guard_says(const char *line, size_t length, bool *written);

/* As the host's last thread, with that signal mask: exit(0). Does not return where there is no guard; else the guard does
   it when the caller has returned. */
ONSTACK_INTERNAL void onstack_guard_exit(onstack_kernel_sigset mask);

/* The keeper has ended: the guard is not needed any more. */
ONSTACK_INTERNAL void onstack_guard_end(void);

/* In the child of a fork, where the thread does not exist. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_guard_forget(void);

#endif
