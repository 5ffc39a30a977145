/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a session counts, as lines: for `onstack record` while a program runs, and for the profile itself. */
#ifndef ONSTACK_PRELOAD_STATUS_H
#define ONSTACK_PRELOAD_STATUS_H

#include "onstack/onstack.h"
#include "platform/defs.h"
#include "preload/new_file.h"

/*
 * Replaces the file that the pattern names by the lines of onstack_session_stats_text, those of modules when `modules` is
 * set.
 * `before`: ticks that nobody could take, before the session; they count as unattributed.
 * 0, or the first thing that went wrong: -errno or a code of the library's; then the former file lies there.
 * Context: as onstack_session_modules.
 */
ONSTACK_INTERNAL int onstack_status_write(const char *pattern, onstack_new_file_last *last, onstack_session *session,
                                          uint64_t before, bool modules);

/* Looks for allocators that a heap session does not see; later texts name them. It reads symbol tables and takes the loader's
   lock, so call it only while the host runs as usual. Context: the keeper. */
ONSTACK_INTERNAL void onstack_status_find_unseen(void);

/* The same lines as text, for a heap session with the account of the process's memory. `ask_malloc`: as
   onstack_memory_text; the allocators that the session does not see are then looked for again. The caller frees it;
   NULL: no memory, or no counters. */
ONSTACK_INTERNAL char *onstack_status_text(onstack_session *session, uint64_t before, bool modules, bool heap,
                                           bool ask_malloc);

#endif
