/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a session is, for the files that join the layers: session.c (start and stop), consumer.c (who empties the ring and
 * tends the threads), statistics.c.
 *
 * Locks, outermost first: a session's consumer lock, the control lock (start, stop), the map lock. Stop takes the control
 * lock without the consumer lock and waits for the drain thread without any lock.
 */
#ifndef ONSTACK_SAMPLER_API_SESSION_H
#define ONSTACK_SAMPLER_API_SESSION_H

#include "onstack/onstack.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "sampler/session/settings.h"
#include "sampler/drain/deliver.h"
#include "sampler/session/worker.h"
#include "sampler/api/interpreters.h"

#include <errno.h>
#include <pthread.h>

#define SESSION_TEND_NS 1000000000u     /* reaping, names, stack bounds again */
#define SESSION_FIRST_TEND_NS 50000000u /* the first time: threads that were being made at start name themselves by then */

/* How often the drain thread comes (consumer.c). */
typedef struct onstack_pace {
  uint64_t process_cpu_ns, checked_ns; /* at the last check whether the process works */
  uint64_t rest_ns;                    /* the last pause of a process that sleeps */
  uint64_t threads;
  uint32_t map;
  uint32_t uneventful; /* rounds in which nothing of what they are made for has happened */
} onstack_pace;

struct onstack_session {
  onstack_settings settings;
  onstack_slot *slot;
  uint32_t generation; /* of the slot while it is this session's; another one: a child of fork */
  uint32_t running;    /* 1 until somebody stops it */
  uint32_t idle;       /* it is stopped, and no handler is inside any more (publish / observe) */
  onstack_worker drain;
  pthread_mutex_t consumer_lock;
  onstack_deliver_counters delivered[ONSTACK_KINDS]; /* written by the consumer */
  onstack_module_statistics module_statistics;       /* under the consumer lock */
  uint64_t tended_ns, refreshed_ns;                  /* consumer only */
  uint64_t look_ns;                                  /* what the last look at all mappings took; consumer only */
  uint64_t begun_ns;                                 /* monotonic; in the child of a fork anew */
  onstack_pace pace;                                 /* consumer only */
  bool needs_rules;                                  /* some tables are missing yet; consumer only */
  bool rests;         /* the source's samples end a rest (onstack_source's `tend`); consumer only */
  uint32_t armed;     /* start has armed the threads; until then nobody else does (publish / observe) */
  uint32_t finished;  /* `last` is valid (publish / observe) */
  onstack_stats last; /* what stop saw */
  onstack_interpreters interpreters;
  bool child_is_new; /* of a fork that is followed: nobody has asked for its sink_data yet */
};

/* True while the slot belongs to this session in this process (not in the child of a fork). */
static inline __attribute__((unused)) bool session_is_here(const onstack_session *session) {
  return onstack_load_relaxed(&session->slot->generation) == session->generation;
}

/* Calls that would wait for themselves: from a sink, from a user's unwinder, or from a handler that interrupted one. */
ONSTACK_INTERNAL bool onstack_session_is_inside(void);

/* Takes the consumer lock. False, and it is not taken: a filter has killed a thread that had it, so what it protects may be in
   any state for ever. */
static inline __attribute__((unused)) bool session_lock_consumer(onstack_session *session) {
  const int result = pthread_mutex_lock(&session->consumer_lock);
  if (result == EOWNERDEAD) pthread_mutex_unlock(&session->consumer_lock); /* from now on nobody gets it (POSIX) */
  return result == 0;
}

/* Hands over at most `max` samples (0: all that wait) and does the housekeeping. Under the consumer lock. */
ONSTACK_INTERNAL uint32_t onstack_session_consume(onstack_session *session, uint32_t max);

/* The drain thread's work on a session; returns the ns until the next round. */
ONSTACK_INTERNAL uint64_t onstack_session_drain_work(void *session);

/* The counters as they are now. */
ONSTACK_INTERNAL void onstack_session_fill_stats(const onstack_session *session, onstack_stats *stats);

#endif
