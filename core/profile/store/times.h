/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * When the samples of a stack were taken, in some four bytes each. Not locked: the profile's lock covers every call here, but
 * what a view has of a stack can be read without: bytes are added behind those that are there, and never moved.
 *
 * The bytes are those of ONSTACK_PPROF_SAMPLE_TIMES: for each sample a varint, whose lowest bit says that the sample's weight
 * follows as another one (it is 1 otherwise), and whose others are the microseconds since the one before, or for the first
 * since the origin, in zigzag form (0, -1, 1, -2, ...).
 *
 * They are kept in memory, and not written to a file while the program runs: ONSTACK_TIMELINE_BYTES hold an hour of 16 busy
 * threads at 99 Hz; a file would be input and output at the host's cost, something to clear away after a crash, and one more
 * that a fork shares. What finds no room is counted, and whoever records for longer asks for more, or begins a new profile.
 */
#ifndef ONSTACK_PROFILE_STORE_TIMES_H
#define ONSTACK_PROFILE_STORE_TIMES_H

#include "profile/store/arena.h"
#include "profile/store/output.h"

typedef struct onstack_profile_times onstack_profile_times;

/* Of all stacks of a profile. */
typedef struct onstack_profile_timeline {
  onstack_profile_arena arena;
  uint64_t origin_ns; /* monotonic */
  bool wanted;
  size_t room; /* bytes that may still be taken */
  uint64_t kept, lost;
} onstack_profile_timeline;

/* What a stack has: all zero, no times. */
typedef struct onstack_profile_stack_times {
  onstack_profile_times *chain;
  uint32_t bytes;
} onstack_profile_stack_times;

/* Notes a sample's time, or counts it as lost where there is no room. */
ONSTACK_INTERNAL void onstack_profile_times_add(onstack_profile_timeline *timeline, onstack_profile_stack_times *times,
                                                uint64_t time_ns, uint32_t weight);

/* Writes them as they were when `times` was copied, as a field of a message, by an origin that lies `shift_us` earlier. They
   are not gathered before: a stack's may be many. */
ONSTACK_INTERNAL size_t onstack_profile_times_length(const onstack_profile_stack_times *times, int64_t shift_us);
ONSTACK_INTERNAL int onstack_profile_times_write(const onstack_profile_stack_times *times, int64_t shift_us,
                                                 onstack_profile_output *output);

#endif
