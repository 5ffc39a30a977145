/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The one line on stderr that says why there is no profile. Nothing is ever said when all is well. */
#ifndef ONSTACK_PRELOAD_REPORT_H
#define ONSTACK_PRELOAD_REPORT_H

#include "base/defs.h"

#include <stddef.h>

/*
 * Remembers what stderr is. A daemon closes it, and the next file that the host opens gets its number: a line of ours in
 * somebody's database is worse than none, so later lines go out only while descriptor 2 is the same file.
 */
ONSTACK_INTERNAL void onstack_report_begin(void);

/*
 * Writes "onstack: " and the text and a line end in one piece. A reader that is gone raises no SIGPIPE here.
 * Context: ordinary threads.
 */
ONSTACK_INTERNAL __attribute__((format(printf, 1, 2))) void onstack_report(const char *format, ...);

/* A line that is whole already, by a thread that has the host's descriptors. */
ONSTACK_INTERNAL void onstack_report_write(const char *line, size_t length);

#endif
