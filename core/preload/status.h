/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a session counts, as lines: for `onstack record` while a program runs, and for the profile itself. */
#ifndef ONSTACK_PRELOAD_STATUS_H
#define ONSTACK_PRELOAD_STATUS_H

#include "onstack/onstack.h"
#include "base/defs.h"

/*
 * Replaces the file that the pattern names by one line of counters,
 *   onstack.stats ticks=123 recorded=123 ... reader=probe
 * and, when `modules` is set, one for each module that stacks were cut in, the worst first,
 *   onstack.module lost=12 misaligned=10 no_rule=2 path=/usr/lib/liby.so
 * Keys may be added, none is taken away. `path` comes last and goes to the end of the line; in it each byte of a
 * control character, of U+2028 and U+2029, of a backslash and of what is not UTF-8 is \ooo, in octal: a path can have
 * line ends.
 * `before`: ticks that nobody could take, before the session; they count as unattributed.
 * 0, or the first thing that went wrong: -errno or a code of the library's; then the former file lies there.
 * Context: as onstack_session_modules.
 */
ONSTACK_INTERNAL int onstack_status_write(const char *pattern, onstack_session *session, uint64_t before, bool modules);

/* The same lines as text, which the caller frees; NULL: no memory, or no counters. */
ONSTACK_INTERNAL char *onstack_status_text(onstack_session *session, uint64_t before, bool modules);

#endif
