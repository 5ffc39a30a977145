/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "drain/deliver.h"

#include "base/exceptions.h"
#include "base/sys.h"
#include "handler/proof.h"

#include <string.h>

static bool deliver_one(const onstack_slot *slot, onstack_ring_entry *entry, onstack_sink sink, void *data) {
  ONSTACK_STOP_EXCEPTIONS;
  char name[sizeof(entry->thread_name) + 1];
  memcpy(name, entry->thread_name, sizeof(entry->thread_name));
  name[sizeof(entry->thread_name)] = 0;
  onstack_sample sample = {
      .size = sizeof(sample),
      .weight = entry->weight,
      .time_ns = entry->time_ns,
      .period_ns = slot->period_ns,
      .tid = entry->tid,
      .truncation = entry->truncation,
      .thread_name = name,
      .frames = entry->frames,
      .frame_count = entry->frame_count,
      .label_bytes = entry->label_bytes,
      .labels = entry->label_bytes > 0 ? onstack_ring_labels(&slot->ring, entry) : NULL,
      .flags = entry->flags,
      .clock = slot->clock,
  };
  return sink(data, &sample) == 0;
}

/* Before anything is counted: a stack that cannot be believed to its end is a truncated one. */
static void deliver_prove(onstack_slot *slot, onstack_ring_entry *entry) {
  if (!slot->copy_works) return;
  uint32_t believed = onstack_proof_check(entry->frames, onstack_ring_found(&slot->ring, entry), entry->frame_count);
  if (believed == entry->frame_count) return;
  entry->frame_count = believed;
  entry->truncation = ONSTACK_TRUNCATED_BAD_RETURN;
}

static void deliver_count(onstack_deliver_counters *counters, const onstack_ring_entry *entry) {
  onstack_add_relaxed(&counters->recorded, (uint64_t)entry->weight);
  onstack_add_relaxed(&counters->samples, (uint64_t)1);
  onstack_add_relaxed(&counters->truncated_by[entry->truncation], (uint64_t)1);
}

uint32_t onstack_deliver(onstack_slot *slot, onstack_sink sink, void *sink_data, uint32_t max,
                         onstack_deliver_counters *counters, onstack_tally *tally) {
  uint32_t handed = 0;
  onstack_ring_entry *entry;
  onstack_store_relaxed(&slot->sink_tid, onstack_sys_gettid());
  /* Without a bound: at most one ring's worth, so that a sink slower than the ticks does not keep us here. */
  uint32_t bound = max ? max : slot->ring.mask + 1;
  uint32_t generation = onstack_load_relaxed(&slot->generation);
  while (handed < bound && (entry = onstack_ring_front(&slot->ring))) {
    if (entry->frame_count > 0) { /* 0: the unwinder refused; counted in the handler */
      deliver_prove(slot, entry);
      /* Before the sink: it may fork, and look at the statistics. */
      deliver_count(counters, entry);
      onstack_tally_add(tally, entry, onstack_ring_found(&slot->ring, entry));
      bool taken = !sink || deliver_one(slot, entry, sink, sink_data);
      /* The sink has forked and this is the child: the slot is not ours any more, its ring is empty or another's. */
      if (onstack_load_relaxed(&slot->generation) != generation) return handed;
      onstack_add_relaxed(&counters->delivered, (uint64_t)1);
      if (!taken) onstack_add_relaxed(&counters->refused, (uint64_t)1);
      handed++;
    }
    onstack_ring_release(&slot->ring, entry);
  }
  onstack_store_relaxed(&slot->sink_tid, 0);
  return handed;
}
