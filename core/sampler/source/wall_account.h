/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The account of a thread in the source `wall`: how long it was blocked and where, as looks tell it, and the samples of that
 * (wall.c says by what rules). The looking thread's alone, and after its end the stopping one's.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_WALL_ACCOUNT_H
#define ONSTACK_SAMPLER_SOURCE_WALL_ACCOUNT_H

#include "sampler/source/look.h"

typedef struct onstack_wall_stack onstack_wall_stack; /* with the time that no sample has told of yet */

/* What the last look at a thread found. */
typedef struct onstack_wall_mark {
  uint32_t tid;                          /* 0: nobody's */
  bool stands;                           /* it was blocked, with `stack` */
  uint64_t stood_ns;                     /* real time since when it stands */
  uint64_t seen_ns, cpu_ns, runnable_ns; /* the clocks then: real time, its CPU time, its waits for a processor */
  uint64_t timeslices;                   /* then: how many it had had */
  int64_t
      unplaced_ns; /* blocked, where no look saw it; or what the kernel has not counted yet of a wait for a processor that is
                      under way, and takes back with the next look */
  uint64_t doubtful_ns; /* it was blocked or has waited: the kernel tells with its next time slice, or it waits to the end */
  uint64_t idle_ns;     /* on no processor since the first look, and no wait was told of it: no wait can be longer */
  uint64_t rest_ns;     /* of stacks that were there for less than a period: of no sample yet */
  uint64_t ticked_ns;   /* of samples, and less than a period: of no tick yet */
  uint64_t name[2];
  uint64_t hints[ONSTACK_INTERPRETERS]; /* sampler/interpreter/interpreter.h */
  bool is_named;                        /* it has not run since: so it has not given itself another name */
  onstack_wall_stack *stack;            /* the last one, in the memory that the record has for it; NULL: none */
} onstack_wall_mark;

/* Bytes that a stack of this session takes at most. */
ONSTACK_INTERNAL size_t onstack_wall_stack_bytes(const onstack_slot *slot);

/* Time of which no sample can be made. */
ONSTACK_INTERNAL void onstack_wall_lose(onstack_slot *slot, uint64_t ns, uint64_t ticks);

/* A look found it blocked. `room`: for its stack, the same each time. `index`: of its record. */
typedef struct onstack_wall_found {
  const onstack_look *look;
  uint64_t now_ns;
  int64_t blocked_ns; /* of the time since the last look */
  bool ran;           /* in that time */
} onstack_wall_found;
ONSTACK_INTERNAL void onstack_wall_account_blocked(onstack_slot *slot, onstack_wall_mark *mark, uint32_t index, void *room,
                                                   const onstack_wall_found *found);

/* What a look tells of who is not blocked. */
typedef enum onstack_wall_slice {
  ONSTACK_SLICE_OTHER, /* it has had another time slice since the last look, or nobody tells */
  ONSTACK_SLICE_WAITS, /* the same one, but it is on no processor: it waits for one, and may have been blocked before that */
  ONSTACK_SLICE_KEPT /* the same one, and it is there: time without CPU time was the machine's (a hypervisor took it away) */
} onstack_wall_slice;

/* It runs, or waits for a processor. */
ONSTACK_INTERNAL void onstack_wall_account_running(onstack_wall_mark *mark, int64_t blocked_ns, onstack_wall_slice slice);

/* What is held back for one stack becomes a sample, a half to one `held_ns` later. */
ONSTACK_INTERNAL void onstack_wall_tell_if_due(onstack_slot *slot, onstack_wall_mark *mark, uint64_t held_ns);

/* Whether the thread has stood still since the last look, if its CPU time has, with a stack that is known as well as can be. */
ONSTACK_INTERNAL bool onstack_wall_stands(const onstack_slot *slot, const onstack_wall_mark *mark);

/* It still stands there, `ns` later. */
ONSTACK_INTERNAL void onstack_wall_stay(onstack_wall_mark *mark, uint64_t ns);

/* It has ended since the last look, nobody knows when: half of the time is told. */
ONSTACK_INTERNAL void onstack_wall_gone(onstack_slot *slot, onstack_wall_mark *mark, uint32_t index, uint64_t now_ns);

/* No look and no tick will come any more: all that is held back becomes samples, and the mark is nobody's. What they would have
   taken goes to the last stack that is known; half a period is rounded, as a timer of CPU time does by chance. */
ONSTACK_INTERNAL void onstack_wall_end(onstack_slot *slot, onstack_wall_mark *mark, uint32_t index);

#endif
