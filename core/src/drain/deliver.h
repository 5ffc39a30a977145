/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ring -> sink. One consumer at a time (the caller's lock). Must not know who calls: drain thread, poll or stop. */
#ifndef ONSTACK_DRAIN_DELIVER_H
#define ONSTACK_DRAIN_DELIVER_H

#include "drain/tally.h"
#include "handler/slot.h"

typedef struct onstack_deliver_counters {
  uint64_t recorded; /* ticks */
  uint64_t samples;
  uint64_t delivered;
  uint64_t refused;
  uint64_t truncated_by[ONSTACK_TRUNCATION_COUNT];
} onstack_deliver_counters;

/* Hands at most `max` waiting samples (0: all) to the sink (NULL: throws them away). While the sink runs,
   slot->sink_tid is the calling thread. Returns the number handed over. */
ONSTACK_INTERNAL uint32_t onstack_deliver(onstack_slot *slot, onstack_sink sink, void *sink_data, uint32_t max,
                                          onstack_deliver_counters *counters, onstack_tally *tally);

#endif
