/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The interpreters that a session asks for frames of their languages, and when they are asked. */
#ifndef ONSTACK_SAMPLER_API_INTERPRETERS_H
#define ONSTACK_SAMPLER_API_INTERPRETERS_H

#include "platform/loader.h"
#include "sampler/interpreter/interpreter.h"
#include "sampler/session/slot.h"

/* A session's part. Consumer only, but for the counters. */
typedef struct onstack_interpreters {
  uint64_t *frames; /* where stacks are put together; NULL: no interpreter is asked */
  uint64_t looked_ns;
  onstack_loader_counts loaded; /* at the last look */
  bool begins;                  /* one is there, and has not begun */
  onstack_interleave_counters counters;
} onstack_interpreters;

/* What profiles and forks have to know of interpreters. Before the first session; any thread. */
ONSTACK_INTERNAL void onstack_interpreters_prepare(void);

/* Returns true if a registered provider finds its interpreter. Milliseconds; ordinary threads. */
ONSTACK_INTERNAL bool onstack_interpreters_are_there(void);

/* Makes room for stacks of `depth` frames, and looks a first time (not `resumed`: in the child of a fork). The slot is taken,
   and does not run. 0 or -ENOMEM; the caller frees `frames`. */
ONSTACK_INTERNAL int onstack_interpreters_open(onstack_interpreters *interpreters, onstack_slot *slot, uint32_t depth,
                                               bool resumed);

/* Looks again, where objects were loaded or unloaded meanwhile, or one is there that has not begun, or has ended. The
   consumer. */
ONSTACK_INTERNAL void onstack_interpreters_look(onstack_interpreters *interpreters, onstack_slot *slot);

/* One runs, or will. The consumer. */
ONSTACK_INTERNAL bool onstack_interpreters_are_met(const onstack_interpreters *interpreters, const onstack_slot *slot);

#endif
