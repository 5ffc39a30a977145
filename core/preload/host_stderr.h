/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The host's stderr, and nothing else that descriptor 2 may have become. */
#ifndef ONSTACK_PRELOAD_HOST_STDERR_H
#define ONSTACK_PRELOAD_HOST_STDERR_H

#include "platform/defs.h"

#include <stddef.h>

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
