/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A clock: who makes the ticks of a session, and what its period is measured in. choose.c alone knows which there are.
 * The handler asks no clock: a tick is a timer's signal with a cookie, whoever sends it.
 *
 * All is called under the control lock, in ordinary threads, unless it says otherwise.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_CLOCK_H
#define ONSTACK_SAMPLER_SOURCE_CLOCK_H

#include "sampler/session/settings.h"
#include "sampler/session/slot.h"

typedef struct onstack_clock_ops {
  const char *name;  /* in statistics */
  uint32_t number;   /* ONSTACK_CLOCK_* */
  onstack_kind kind; /* of the samples that its ticks make */
  bool silent;       /* no signal, no timer, no thread: something else than time makes its samples (onstack_clock_signals) */
  bool from_outside; /* walks blocked threads, by the two registers that the kernel tells: from these only rules lead on */
  bool says_states;  /* samples say the thread's state, in labels of the clock's */
  uint32_t label_bytes; /* room for these */
  bool filters; /* all its threads come from a list, and none from a handler: a host's filter can be asked about each */

  /* Checks the options that only some clocks take, and sets the periods. ONSTACK_E_*, with *fault as in options.h. Any
     thread. */
  int (*accept)(const onstack_options *options, onstack_settings *settings, const char **fault);

  /* Whether the kernel lets it tick by this signal. 0 or -errno; nothing is left. Before a slot is taken. */
  int (*probe)(int32_t signal);

  /* The CPU time after which a scan takes a thread that has no timer; 0: hardly anything else finds threads, so they
     take each. */
  uint64_t (*scan_age)(uint64_t period_ns);
  uint32_t scan_share; /* scans take one part in so many of a processor at most; 0: as is usual (sampler/api/consumer.c) */

  /* Before any thread is armed. 0 or -errno, and then nothing is left. NULL: there is nothing to do. */
  int (*join)(onstack_slot *slot, const onstack_settings *settings);

  /* All threads that there are have been armed; `listed`: 0, or -errno where they could not be listed, or 1 in the child of a
     fork, where the next scan does that. 0, ONSTACK_E_*, -errno. */
  int (*start)(onstack_slot *slot, int listed);

  /* The last round of `work` is over (but for one in a poll), and the slot runs yet: what the clock holds back becomes samples.
     The stopping thread. NULL: there is nothing to do. */
  void (*finish)(onstack_slot *slot);

  /* The slot is not running any more, but threads are armed yet. NULL: there is nothing to do. */
  void (*leave)(onstack_slot *slot);

  /* Ticks for the thread `tid`: `record`, which is NONE or ARMING, is ARMED or REFUSED then. Start, or inside a scan. */
  void (*arm)(onstack_slot *slot, onstack_thread *record, uint32_t tid);

  /* No more ticks by the id that onstack_timer_take gave. Any thread. */
  void (*remove)(int32_t id);

  /* The time on the clock of a thread. False if the thread has ended, or a filter refuses. Any thread. */
  bool (*read)(uint32_t tid, uint64_t *ns);

  /* An armed thread has had no tick since housekeeping looked last: true if it is another one than was armed under this id.
     The consumer of the slot. NULL: somebody else finds out. */
  bool (*doubts)(const onstack_slot *slot, uint32_t tid);

  /* Threads are disarmed; whether a tick may be on its way to any thread, armed or not. NULL: no. */
  bool (*awaits)(const onstack_slot *slot);

  /* One round of a thread that the clock needs, of that name; returns ns until the next. Begun after `start`, it has ended
     before `leave`. NULL: it needs none. */
  uint64_t (*work)(void *slot);
  const char *thread_name;
  bool works_in_polls; /* where the session has no threads its polls do a round instead, which may be late */

  /* Hands the ends of what samples stand for (ONSTACK_SAMPLE_FREED) to the sink, and counts in *refused those that it does not
     take. Under the consumer lock, after a delivery. False: the sink forked, and this is the child. NULL: they have no ends. */
  bool (*deliver_ends)(onstack_slot *slot, onstack_sink sink, void *data, uint64_t *refused);

  /* Its own part of a session's statistics. Any thread. NULL: it has none. */
  void (*fill)(const onstack_slot *slot, onstack_stats *stats);

  /* A line of its own for the statistics' text, as snprintf. Any thread. NULL: it has none. */
  int (*text)(const onstack_stats *stats, char *out, size_t capacity);

  /* The slot is given back: no thread is inside, and the sink has had all. NULL: there is nothing to do. */
  void (*drop)(onstack_slot *slot);

  /* In the child of a fork, which has no timers. Async-signal-safe. NULL: there is nothing to do. */
  void (*after_fork)(void);
} onstack_clock_ops;

/* Whether the slot's ticks are signals, by timers of threads that are listed, armed and disarmed. */
static inline __attribute__((unused)) bool onstack_clock_signals(const onstack_slot *slot) { return !slot->clock->silent; }

ONSTACK_INTERNAL_DATA const onstack_clock_ops onstack_clock_cpu;         /* CPU time, by timers */
ONSTACK_INTERNAL_DATA const onstack_clock_ops onstack_clock_wall;        /* real time, by looks from outside */
ONSTACK_INTERNAL_DATA const onstack_clock_ops onstack_clock_wall_signal; /* real time, by timers */
ONSTACK_INTERNAL_DATA const onstack_clock_ops onstack_clock_cpu_ticker;  /* the same, sent by a thread of ours */
ONSTACK_INTERNAL_DATA const onstack_clock_ops onstack_clock_wall_signal_ticker;
ONSTACK_INTERNAL_DATA const onstack_clock_ops onstack_clock_heap; /* allocations */

/* An `accept` for clocks of time: a frequency. */
ONSTACK_INTERNAL int onstack_clock_accept_rate(const onstack_options *options, onstack_settings *settings,
                                               const char **fault);

/* A `start` for clocks whose threads come from lists alone: fails where there was none to be had, or no thread has a timer. */
ONSTACK_INTERNAL int onstack_clock_start_listed(onstack_slot *slot, int listed);

/* A `scan_age` for these. */
ONSTACK_INTERNAL uint64_t onstack_clock_scan_all(uint64_t period_ns);

#endif
