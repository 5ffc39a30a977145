/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sampled allocations that are in use: which stack they belong to, by the number of the object. Not locked. */
#ifndef ONSTACK_PROFILE_STORE_HELD_H
#define ONSTACK_PROFILE_STORE_HELD_H

#include "platform/defs.h"

typedef struct onstack_profile_held_object {
  uint64_t object; /* 0: the place is free */
  uint64_t value;
  uint64_t time_ns; /* when it was allocated */
  uint32_t weight;
  uint32_t stack; /* its position; ONSTACK_PROFILE_HASH_NONE: the one of what came when there was no room */
} onstack_profile_held_object;

/* All zero: empty, ready to use. */
typedef struct onstack_profile_held {
  onstack_profile_held_object *places;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
} onstack_profile_held;

/* Room for one more. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_held_reserve(onstack_profile_held *held);
/* After a reserve; the object is not there yet. */
ONSTACK_INTERNAL void onstack_profile_held_add(onstack_profile_held *held, const onstack_profile_held_object *object);
/* Takes it out; false: it is not there. */
ONSTACK_INTERNAL bool onstack_profile_held_remove(onstack_profile_held *held, uint64_t object,
                                                  onstack_profile_held_object *out);
ONSTACK_INTERNAL void onstack_profile_held_release(onstack_profile_held *held);

#endif
