/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The distinct stacks of a profile with their counts. Not locked: the profile's lock covers every call here.
 *
 * Frames are written once and stay where they are until the last reference goes, so a writer that holds a reference and
 * a copy of the entries (with their counts of one instant) reads frames without the lock.
 */
#ifndef ONSTACK_PROFILE_STORE_STACKS_H
#define ONSTACK_PROFILE_STORE_STACKS_H

#include "platform/defs.h"
#include "platform/calls.h"
#include "profile/store/output.h"
#include "profile/store/store.h"

#include "onstack/onstack.h"

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

/* Writes them as they were when `times` was copied, as a field of a message, by an origin that lies `shift_us` earlier. They
   are not gathered before: a stack's may be many. */
ONSTACK_INTERNAL size_t onstack_profile_times_length(const onstack_profile_stack_times *times, int64_t shift_us);
ONSTACK_INTERNAL int onstack_profile_times_write(const onstack_profile_stack_times *times, int64_t shift_us,
                                                 onstack_profile_output *output);

/* Sampled allocations that are in use: which stack they belong to, by the number of the object. Not locked. */

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

#define ONSTACK_PROFILE_THREAD_NAME 16 /* bytes, NUL included */

/* What tells a stack from others besides its frames. Most stacks of a profile share a few. */
typedef struct onstack_profile_head {
  uint64_t period;
  const char *labels; /* pairs of strings, as in the sample; NULL: none */
  uint32_t label_bytes;
  onstack_truncation truncation;
  onstack_kind kind;
  int32_t tid;                                   /* 0 where threads are not told apart */
  char thread_name[ONSTACK_PROFILE_THREAD_NAME]; /* "": unknown, or not wanted */
} onstack_profile_head;

/* There may be a million: a number for a frame, and one head for many. */
typedef struct onstack_profile_stack {
  const uint32_t *frames; /* numbers of addresses, leaf first */
  const onstack_profile_head *head;
  uint32_t frame_count;
  onstack_profile_stack_times times;
  uint64_t first_ns, last_ns; /* of its samples; monotonic */
  uint64_t weight;            /* 0: no samples yet */
  uint64_t value;
  uint64_t held_weight; /* of allocations, what is in use */
  uint64_t held_value;
} onstack_profile_stack;

typedef struct onstack_profile_stacks {
  size_t references;
  onstack_profile_arena frames; /* and heads */
  /* Look-up addresses by number: interrupted PCs, and return addresses minus 1. */
  onstack_profile_hash_index address_index;
  uint64_t *addresses;
  size_t address_count, address_capacity;
  onstack_profile_hash_index head_index;
  const onstack_profile_head **heads;
  size_t head_count, head_capacity;
  onstack_profile_head overflow_heads[ONSTACK_KINDS];
  onstack_profile_hash_index index;
  onstack_profile_stack *items;
  size_t count;
  size_t capacity;
  /* All that came when `count` had reached its limit, by kind; without frames. */
  onstack_profile_stack overflow[ONSTACK_KINDS];
  onstack_profile_held held;
  onstack_profile_timeline timeline;
} onstack_profile_stacks;

/* Returns an empty store with one reference, NULL when memory is out. Times of samples are kept in `timeline_bytes`, since
   `origin_ns`. */
ONSTACK_INTERNAL onstack_profile_stacks *onstack_profile_stacks_new(size_t timeline_bytes, uint64_t origin_ns);
/* Drops a reference; true: it was the last, and the caller frees the store (outside the lock). */
ONSTACK_INTERNAL bool onstack_profile_stacks_drop(onstack_profile_stacks *stacks);
ONSTACK_INTERNAL void onstack_profile_stacks_free(onstack_profile_stacks *stacks);

/*
 * Counts a sample, whose frames are these look-up addresses. What `head` points to is copied. *added: the stack was not known
 * before (then it is the last of `items`). Errors: -ENOMEM (nothing is counted).
 */
ONSTACK_INTERNAL int onstack_profile_stacks_count(onstack_profile_stacks *stacks, const onstack_profile_head *head,
                                                  const uint64_t *frames, const onstack_sample *sample, size_t limit,
                                                  bool *added);

/* An allocation is not in use any more. One that is not known, since its sample was taken or refused, changes nothing. */
ONSTACK_INTERNAL void onstack_profile_stacks_end(onstack_profile_stacks *stacks, uint64_t object);

#endif
