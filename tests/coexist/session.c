/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "session.h"

#include "support.h"

#include <stdlib.h>

onstack_session *start(uint32_t frequency, onstack_switch threads) {
  onstack_options options;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  options.frequency = frequency;
  options.threads = threads;
  int result = onstack_session_start(&options, &session);
  if (result == 0) return session;
  check(false, "start", "%s (%d)", onstack_strerror(result), result);
  exit(1);
}

onstack_stats finish(onstack_session *session, const char *name) {
  onstack_stats stats = {.size = sizeof(stats)};
  int stopped = onstack_session_stop(session);
  onstack_session_stats(session, &stats);
  onstack_session_free(session);
  uint64_t sum = stats.recorded + stats.unattributed + stats.dropped_ring_full + stats.dropped_no_stack +
                 stats.dropped_unwinder + stats.dropped_stopping;
  if (stopped != 0 || sum != stats.ticks)
    check(false, name, "stop %d; %lu ticks, %lu accounted for", stopped, (unsigned long)stats.ticks, (unsigned long)sum);
  return stats;
}

double share_of(const onstack_stats *stats, double cpu_seconds) {
  return (double)(stats->ticks * stats->period) / 1e9 / cpu_seconds;
}
