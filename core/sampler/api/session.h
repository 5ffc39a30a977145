/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the public calls share: a session, its start, its slots, its interpreters, and forks. */
#ifndef ONSTACK_SAMPLER_API_SESSION_H
#define ONSTACK_SAMPLER_API_SESSION_H

#include "onstack/onstack.h"
#include "platform/atomics.h"
#include "platform/defs.h"
#include "platform/loader.h"
#include "platform/process.h"
#include "sampler/drain/deliver.h"
#include "sampler/interpreter/interpreter.h"
#include "sampler/ring/kept.h"
#include "sampler/session/settings.h"
#include "sampler/session/slot.h"
#include "sampler/session/worker.h"
#include "sampler/unwind/module_statistics.h"
#include "sampler/unwind/unwinder.h"

#include <errno.h>
#include <pthread.h>

/*
 * As onstack_session_start, but ticks begin before unwind rules are derived, which takes some 10 ms a MiB of .eh_frame:
 * the drain thread derives them while the program runs, and finds what stacks of the first moments need
 * (sampler/drain/deliver.h).
 */
ONSTACK_INTERNAL int onstack_session_start_at_once(const onstack_options *options, onstack_session **out);

/* How a session's ticks are walked, for ticks that are not its own. */
typedef struct onstack_session_walk {
  const onstack_unwinder_ops *unwinder;
  const onstack_reader *reader;
  bool copy_works;
  uint32_t stack_bytes; /* of the signal stack that such a tick needs */
  const uint32_t *room; /* that its samples have; more than `least` */
  uint32_t least;       /* where an interpreter has been met, whose frames such a tick would lack */
  uint32_t weight_max;  /* of one tick */
  uint64_t period_ns;
} onstack_session_walk;

/* The same in the child of a fork, where the session is not. Any thread. */
ONSTACK_INTERNAL onstack_session_walk onstack_session_walk_of(const onstack_session *session);

/* The same where a session is yet to begin, for ticks whose stacks are kept and walked later: no unwinder. An error where they
   could not be, or the source is not CPU time. Start only. */
ONSTACK_INTERNAL int onstack_session_walk_expected(const onstack_options *options, onstack_session_walk *walk);

/* Walks such a tick's stack further where it was kept (`kept`, else NULL), with a session that runs. What a stack lacks that
   was not kept is derived, for the next one. Start-stop only. */
ONSTACK_INTERNAL void onstack_session_walk_again(const onstack_session *session, onstack_kept *kept, onstack_walked *stack);

/* Of the samples that the session's source makes. Any thread. */
ONSTACK_INTERNAL onstack_kind onstack_session_kind(const onstack_session *session);

/* The interpreters that a session asks for frames of their languages, and when they are asked. */

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

/*
 * What a session is, for the files that join the layers: session.c (start and stop), consumer.c (who empties the ring and
 * tends the threads), statistics.c.
 *
 * Locks, outermost first: a session's consumer lock, the control lock (start, stop), the map lock. Stop takes the control
 * lock without the consumer lock and waits for the drain thread without any lock.
 */

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

/*
 * A slot's life: taken and given back; in between its source starts and stops. All under the control lock unless it says
 * otherwise.
 *
 * The control lock is the outermost lock of the library (then the map lock). It is never held while a sink or a drain
 * thread is waited for, nor in a fork handler.
 */

/* False, and nothing taken, if this very thread holds the lock already (a signal handler that interrupted start). */
ONSTACK_INTERNAL bool onstack_control_lock(void);
ONSTACK_INTERNAL bool onstack_control_try_lock(void); /* false also when somebody else holds it */
ONSTACK_INTERNAL void onstack_control_unlock(void);

/* Takes a free slot and fills it in for the settings; its state becomes STARTING. Returns 0, ONSTACK_E_* or -errno. */
ONSTACK_INTERNAL int onstack_slot_take(const onstack_settings *settings, onstack_slot **out);

/* Gives the slot back. Nobody reads its ring any more. */
ONSTACK_INTERNAL void onstack_slot_give_back(onstack_slot *slot);

/* True if this thread is inside a sink (tid: of the thread). Signal-safe. */
ONSTACK_INTERNAL bool onstack_slots_in_sink(int32_t tid);

/* Sampling is over in the child of a fork: no timer exists there, no other thread. Async-signal-safe, no lock. */
ONSTACK_INTERNAL void onstack_slots_after_fork(void);

/* Where spans are wanted and objects have come or gone: looks for who publishes them again. Housekeeping. */
ONSTACK_INTERNAL void onstack_spans_look(void);

/*
 * fork() at any instant. The prepare handler takes no lock and waits for nothing: on musl and macOS it runs under the
 * lock of pthread_atfork itself, and a lock of ours could be held by a thread that waits for that one.
 */

/* Registers the handlers once. Under the control lock. Returns 0 or -errno. */
ONSTACK_INTERNAL int onstack_fork_prepare(void);

/* `follow` is called in the child when it is clean, on its only thread, with our signals still blocked; not when fork()
   was called inside a sink. Always the same function. */
ONSTACK_INTERNAL void onstack_fork_set_follow(void (*follow)(void));

/* `after_fork` puts labels in order in each child, also one that ran no atfork handlers; only async-signal-safe work. Always
   the same function. */
ONSTACK_INTERNAL void onstack_fork_set_labels(void (*after_fork)(void));

/*
 * Children that ran no atfork handlers (_Fork, raw clone) are put in order when they first call us: before any lock is
 * taken and any thread waited for, since neither need be there. Cheap elsewhere. Any thread; not in a signal handler.
 */
ONSTACK_INTERNAL void onstack_fork_repair(void);

/* As for labels: for what names frames of interpreted languages. */
ONSTACK_INTERNAL void onstack_fork_set_interpreters(void (*after_fork)(void));

#endif
