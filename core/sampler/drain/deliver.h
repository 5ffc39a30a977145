/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ring -> sink. One consumer at a time (the caller's lock). Must not know who calls: drain thread, poll or stop. */
#ifndef ONSTACK_SAMPLER_DRAIN_DELIVER_H
#define ONSTACK_SAMPLER_DRAIN_DELIVER_H

#include "sampler/interpreter/interpreter.h"
#include "sampler/unwind/module_statistics.h"
#include "sampler/session/slot.h"

/* ---- walking a kept stack (sampler/ring/kept.h) when its rules are there: a slot's consumer, or the preload's keeper ---- */

/* Where the rules of walks that ended PENDING come from; false: nothing to be done there. */
typedef struct onstack_derive {
  bool (*describe)(uint64_t address); /* one address, if it can be had alone */
  bool (*derive)(uint64_t address);   /* all of the module that holds it */
} onstack_derive;

/* Puts what is found into *stack, where that is more; its frames are in *kept then. */
ONSTACK_INTERNAL void onstack_again(const onstack_slot *slot, onstack_kept *kept, const onstack_derive *from,
                                    onstack_walked *stack);

/* Back into its pool. Without its pages, as such stacks come in the first moments, and sessions last for days; but for the
   first of the pool, which is taken first: to give pages back stops the threads of a process for a moment. */
ONSTACK_INTERNAL void onstack_again_release(const onstack_kept *pool, onstack_kept *kept);

/* ---- delivering ---- */

/* Of the samples of one kind. */
typedef struct onstack_deliver_counters {
  onstack_sum recorded;
  uint64_t samples;
  uint64_t delivered;
  uint64_t refused;
  uint64_t truncated_by[ONSTACK_TRUNCATION_COUNT];
} onstack_deliver_counters;

typedef struct onstack_delivery {
  onstack_sink sink; /* NULL: throws samples away */
  void *data;
  uint32_t max;                 /* samples; 0: all that wait */
  uint64_t end;                 /* none from this position of the ring on: the caller has looked at the loaded objects after
                            those before it were taken */
  const onstack_derive *derive; /* for stacks that were kept */
  uint64_t *frames;             /* of the session's depth: for stacks with frames of interpreters; NULL: there are none */
  onstack_interleave_counters *interleaved;
} onstack_delivery;

/* Hands waiting samples over; `by_kind`: ONSTACK_KINDS of them. While the sink runs, slot->sink_tid is the calling thread.
   Returns their number. */
ONSTACK_INTERNAL uint32_t onstack_deliver(onstack_slot *slot, const onstack_delivery *to, onstack_deliver_counters *by_kind,
                                          onstack_module_statistics *statistics);

#endif
