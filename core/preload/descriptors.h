/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The keeper opens files all the time: mappings, symbols, thread names, profiles. A host that closes descriptor 0 and
 * opens a file to get it back, or a child that checks which descriptors it was given, must not find ours there. So the
 * keeper, and the session's threads that it makes, leave the host's table of descriptors for one of their own.
 *
 * A table that one thread alone has costs the host less, too: without another thread that might change it, the kernel takes
 * no reference to a file in each call (fs/file.c, fdget): 1 to 4 % of a send and a receive of 64 bytes.
 *
 * If the first thread ends before the process does, another thread may be the last of the host's. libc counts the keeper as
 * well, so it calls exit() on a thread of ours, and the exit handlers need the host's descriptors and a stack as large as any
 * thread's. The guard is a thread "onstack-guard" with both. The first thread makes it when it ends, and it ends after the
 * keeper. libc calls exit() only if each thread has ended by libc. If a thread ended otherwise (by the system call, or killed
 * by a filter), the process ends with the status of its first thread, as it would without us.
 */
#ifndef ONSTACK_PRELOAD_DESCRIPTORS_H
#define ONSTACK_PRELOAD_DESCRIPTORS_H

#include "platform/defs.h"

#include <stddef.h>

/*
 * The calling thread, and the threads that it makes from now on, get a table of their own, with the host's stderr in it
 * (below). A second call does nothing. Nothing changes if the kernel has no such call (before 5.9) or refuses it, or
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

/* ---- the host's stderr, and nothing else that descriptor 2 may have become ---- */

/*
 * Remembers what stderr is. A daemon closes it, and the next file that the host opens gets its number: a line of ours in
 * another program's database is worse than no line, so later lines are written only while descriptor 2 is the same file.
 * Context: constructor.
 */
ONSTACK_INTERNAL void onstack_host_stderr_remember(void);

/*
 * The calling thread has a table of descriptors of its own now, with a copy of the host's descriptor 2. Drops the copy if it
 * is another file than the one remembered. Context: the keeper.
 */
ONSTACK_INTERNAL void onstack_host_stderr_own(void);

/*
 * Drops that copy once the host has closed its own descriptor, so that the reader of a pipe sees the end. The copy stays if
 * /proc cannot be read, or if the host's first thread has ended, whose descriptors /proc shows. Context: the keeper, each
 * round but the last: a program may close stderr in an exit handler, and our last line follows that.
 */
ONSTACK_INTERNAL void onstack_host_stderr_follow(void);

/* Writes a whole line to the calling thread's descriptor 2, if that is the file that was remembered. Raises no SIGPIPE if the
   reader is gone. Returns true if all of it was written. */
ONSTACK_INTERNAL bool onstack_host_stderr_write(const char *line, size_t length);

/* ---- the one line that says why there is no profile. Nothing is ever said when all is well ---- */

/*
 * Writes "onstack: " and the text and a line end in one piece, to the stderr that onstack_host_stderr_remember has met.
 * Context: ordinary threads.
 */
ONSTACK_INTERNAL __attribute__((format(printf, 1, 2))) void onstack_complain(const char *format, ...);

/* A text, as it is; false: stderr is closed, or nobody has read it for a second. Context: as above. */
ONSTACK_INTERNAL bool onstack_say(const char *text, size_t length);

#endif
