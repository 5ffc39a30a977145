/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A session's statistics as lines (onstack_session_stats_text), and as the preload writes them. */
#ifndef ONSTACK_SAMPLER_API_STATISTICS_H
#define ONSTACK_SAMPLER_API_STATISTICS_H

#include "onstack/onstack.h"
#include "platform/defs.h"

/* Ticks that are in a session's profile and not in its own counters. */
typedef struct onstack_statistics_more {
  uint64_t unattributed;               /* that nobody could take */
  uint64_t samples, weight, truncated; /* taken without it */
} onstack_statistics_more;

/* `more` is added. `modules`: their lines too. Errors: as onstack_session_stats_text. */
ONSTACK_INTERNAL int onstack_statistics_write(onstack_session *session, const onstack_statistics_more *more, bool modules,
                                              onstack_writer writer, void *data);

#endif
