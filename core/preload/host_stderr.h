/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The host's stderr, and nothing else that descriptor 2 may have become. */
#ifndef ONSTACK_PRELOAD_HOST_STDERR_H
#define ONSTACK_PRELOAD_HOST_STDERR_H

#include "base/defs.h"

#include <stddef.h>

/*
 * Remembers what stderr is. A daemon closes it, and the next file that the host opens gets its number: a line of ours in
 * somebody's database is worse than none, so later lines go out only while descriptor 2 is the same file.
 */
ONSTACK_INTERNAL void onstack_host_stderr_remember(void);

/* `file` is what stderr was then. */
ONSTACK_INTERNAL bool onstack_host_stderr_is(int file);

/* Writes a whole line to `file`, which is the host's stderr in the caller's table, if it is what it was. A reader that is gone
   raises no SIGPIPE here. */
ONSTACK_INTERNAL bool onstack_host_stderr_write(int file, const char *line, size_t length);

#endif
