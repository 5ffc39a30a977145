/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A session's statistics as lines (onstack_session_stats_text), and as the preload writes them. */
#ifndef ONSTACK_SESSION_STATISTICS_TEXT_H
#define ONSTACK_SESSION_STATISTICS_TEXT_H

#include "base/defs.h"

#include "onstack/onstack.h"

/* `before`: ticks that nobody could take, before the session; they count as unattributed. `modules`: their lines too.
   Errors: as onstack_session_stats_text. */
ONSTACK_INTERNAL int onstack_statistics_write(onstack_session *session, uint64_t before, bool modules, onstack_writer writer,
                                              void *data);

#endif
