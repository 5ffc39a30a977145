/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The keeper opens files all the time: mappings, symbols, thread names, profiles. A host that closes descriptor 0 and
 * opens a file to get it back, or a child that checks which descriptors it was given, must not find ours there. So the
 * keeper, and the session's threads that it makes, leave the host's table of descriptors for one of their own.
 *
 * A table that one thread alone has costs the host less, too: without another thread that might change it, the kernel takes
 * no reference to a file in each call (fs/file.c, fdget): 5 % of a send and a receive of 64 bytes.
 *
 * If the first thread ends before the process does, another thread may be the last of the host's. libc counts the keeper as
 * well, so it calls exit() on a thread of ours, and the exit handlers need the host's descriptors and a stack as large as any
 * thread's. The guard is a thread "onstack-guard" with both. The first thread makes it when it ends, and it ends after the
 * keeper. libc calls exit() only if each thread has ended by libc. If a thread ended otherwise (by the system call, or killed
 * by a filter), the process ends with the status of its first thread, as it would without us.
 */
#ifndef ONSTACK_PRELOAD_GUARD_H
#define ONSTACK_PRELOAD_GUARD_H

#include "platform/defs.h"

/*
 * The calling thread, and the threads that it makes from now on, get a table of their own, with the host's stderr in it
 * (host_stderr.h). A second call does nothing. Nothing changes if the kernel has no such call (before 5.9) or refuses it, or
 * if the allocator is not libc's: it may use a descriptor on the host's threads and on these (tcmalloc's libunwind has a
 * pipe). Context: the keeper.
 */
ONSTACK_INTERNAL void onstack_guard_take_own_table(void);

/* Makes the guard. *keeper is the id of the keeper's thread, 0 until that runs. Context: the process's first thread, which is
   about to end. */
ONSTACK_INTERNAL void onstack_guard_make(const int32_t *keeper);

/* The keeper is about to end. `alone`: all threads of the host have ended, so the guard may take the host's signals. */
ONSTACK_INTERNAL void onstack_guard_end(bool alone);

/* In the child of a fork, where the thread does not exist. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_guard_forget(void);

#endif
