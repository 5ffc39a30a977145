/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a profile knows of the mappings over time: the set of now, the one before, and since when and until when each was
 * true. A sample arrives after it was taken, and in between a library may have taken the place of another. The profile's
 * lock covers every call.
 */
#ifndef ONSTACK_PROFILE_MAPS_SIGHT_H
#define ONSTACK_PROFILE_MAPS_SIGHT_H

#include "platform/loader.h"
#include "profile/maps/maps.h"

/* The loader's numbers (platform/loader.h) of all objects at one moment, sorted. */
typedef struct onstack_profile_loads {
  uint64_t *numbers;
  size_t count, room;
  onstack_loader_counts counted; /* at that moment */
} onstack_profile_loads;

typedef struct onstack_profile_sight {
  onstack_profile_maps *maps;                  /* never NULL */
  onstack_profile_maps *earlier;               /* NULL: none */
  onstack_loader_counts loaded;                /* when `maps` was read; zeros where the loader cannot be asked */
  uint64_t since_ns, until_ns;                 /* when `maps` was found true first and last; monotonic */
  uint64_t earlier_since_ns, earlier_until_ns; /* the same of `earlier` */
  onstack_profile_loads loads;                 /* what is loaded now, where that is not what it was */
} onstack_profile_sight;

/* Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_sight_open(onstack_profile_sight *sight);
ONSTACK_INTERNAL void onstack_profile_sight_close(onstack_profile_sight *sight);

/* In the child of a fork whose parent had a thread that was changing it: the set of now stays. */
ONSTACK_INTERNAL void onstack_profile_sight_after_fork(onstack_profile_sight *sight);

/* Reads the mappings of now; without memory the old set stays in use. With `keep_retired` false what is gone is
   forgotten. Returns a set that the caller frees without the lock, or NULL. */
ONSTACK_INTERNAL onstack_profile_maps *onstack_profile_sight_read(onstack_profile_sight *sight, bool keep_retired);

/* Whether objects were loaded or unloaded since the set of now was read; no: it is true until this moment. */
ONSTACK_INTERNAL bool onstack_profile_sight_has_changed(onstack_profile_sight *sight);

/* After a change: looks which objects are loaded now, if that is not known yet. */
ONSTACK_INTERNAL void onstack_profile_sight_ask(onstack_profile_sight *sight);

/* Whether an address of the process lies in an object that was loaded when the set of now was read, and at the last
   onstack_profile_sight_ask. Such an address needs no new set, which costs more than many samples. */
ONSTACK_INTERNAL bool onstack_profile_sight_still_holds(const onstack_profile_sight *sight, uint64_t address);

/* The set's address for an address at a time (0: now), ONSTACK_MAPS_UNKNOWN where it cannot be told. */
ONSTACK_INTERNAL uint64_t onstack_profile_sight_place(const onstack_profile_sight *sight, uint64_t address,
                                                      uint64_t time_ns);

#endif
