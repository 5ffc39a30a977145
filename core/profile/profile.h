/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The profile: a sink that aggregates, and the views that writers take of it.
 *
 * One lock, which is never held while host code (writer, symbolizer) runs, a symbol file is read, or output is made. A
 * sink waits for a writer at most as long as it takes to copy the counts.
 */
#ifndef ONSTACK_PROFILE_PROFILE_H
#define ONSTACK_PROFILE_PROFILE_H

#include "platform/defs.h"
#include "profile/maps/maps.h"
#include "profile/store/stacks.h"

#include "onstack/onstack.h"
#include "onstack/profile.h"

/* The state of a profile at one instant. Read without the lock. */
typedef struct onstack_profile_view {
  onstack_profile_stack *items; /* own copy; frames and heads belong to `stacks` */
  size_t count;
  uint64_t *addresses; /* own copy, by the numbers that frames are */
  size_t address_count;
  onstack_profile_stack overflow[ONSTACK_KINDS];
  onstack_profile_stacks *stacks;  /* a reference, or NULL when there are no samples */
  onstack_profile_maps *maps;      /* a reference */
  uint64_t times_kept, times_lost; /* both 0: none were wanted, or there are no samples */
  bool thread_names;
  uint32_t kinds; /* that samples are held of: a bit each, 1 << ONSTACK_KIND_* */
  int64_t start_unix_ns;
  int64_t duration_ns; /* since then */
} onstack_profile_view;

/* Samples of one kind; `only` 0: all. Errors: -ENOMEM (nothing to release). */
ONSTACK_INTERNAL int onstack_profile_view_take(onstack_profile *profile, onstack_kind only, uint64_t age_ns,
                                               onstack_profile_view *view);
ONSTACK_INTERNAL void onstack_profile_view_release(onstack_profile *profile, onstack_profile_view *view);

#endif
