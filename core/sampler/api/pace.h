/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How long a drain thread waits between two rounds. A round costs a wake-up, most of which is the kernel's, so a process that
 * sleeps is woken rarely, and one that works as often as something happens that a round is made for. The consumer of a session.
 */
#ifndef ONSTACK_SAMPLER_API_PACE_H
#define ONSTACK_SAMPLER_API_PACE_H

#include "platform/defs.h"

#include <stdint.h>

#define ONSTACK_PACE_BUSY_NS 10000000u /* while the process works and things happen */

typedef struct onstack_pace {
  uint64_t process_cpu_ns, checked_ns; /* at the last check whether the process works */
  uint64_t rest_ns;                    /* the last pause of a process that sleeps */
  uint64_t threads;
  uint32_t map;
  uint32_t uneventful; /* rounds in which nothing of what they are made for has happened */
} onstack_pace;

/* What is seen in a round. */
typedef struct onstack_pace_signs {
  bool rests;         /* ticks alone may end a rest: another clock's new threads are to be found whether they work or not */
  bool steady;        /* nothing is there that changes from one instant to the next, as an interpreter's code */
  uint64_t period_ns; /* of the session's ticks */
  uint64_t threads;   /* met so far */
  uint32_t map;       /* the number of the state of the map of objects */
} onstack_pace_signs;

/* Something has happened that the signs do not say: another owner's handler stood above ours. */
ONSTACK_INTERNAL void onstack_pace_hurry(onstack_pace *pace);

/* At the end of a round: nanoseconds to the next, and whether the process has worked since the last. */
ONSTACK_INTERNAL uint64_t onstack_pace_next(onstack_pace *pace, const onstack_pace_signs *signs, bool *busy);

/* ONSTACK_PAUSE_* of such a pause: which samples end it. */
ONSTACK_INTERNAL uint32_t onstack_pace_kind(const onstack_pace *pace, uint64_t pause_ns);

#endif
