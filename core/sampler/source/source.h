/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A source: what makes a session's samples. Each is a file beside this one, with its state in the slot; choose.c lists them.
 * The session and the handler ask no source for its kind of work: a session calls these functions, and a tick is a signal with
 * a cookie, whatever sent it. The threads of a process are found by discovery.h, for the sources that want them all.
 */
#ifndef ONSTACK_SAMPLER_SOURCE_SOURCE_H
#define ONSTACK_SAMPLER_SOURCE_SOURCE_H

#include "sampler/session/settings.h"
#include "sampler/session/slot.h"

#define ONSTACK_SOURCE_COUNTERS 4

/* A round of the consumer, which empties the ring: what a source may do in it. */
typedef struct onstack_source_round {
  const onstack_settings *settings;
  uint64_t now_ns;
  bool runs;         /* the session has started and has not been stopped; else only the sink's part is due */
  bool due;          /* once a second */
  bool on_top;       /* our handler is the installed one */
  onstack_sink sink; /* NULL: samples are thrown away */
  void *data;        /* the sink's */
  uint64_t *refused; /* counts what the sink does not take */
} onstack_source_round;

/* A counter of the source's own, for the statistics' text. */
typedef struct onstack_source_counter {
  const char *key; /* NULL: no more */
  size_t offset;   /* of a uint64_t in onstack_stats */
} onstack_source_counter;

typedef struct onstack_source {
  const char *name;     /* in statistics */
  uint32_t number;      /* ONSTACK_CLOCK_* */
  onstack_kind kind;    /* of its samples */
  onstack_unit unit;    /* of its period */
  uint32_t label_bytes; /* room for labels of its own */
  onstack_source_counter counters[ONSTACK_SOURCE_COUNTERS + 1];

  /* Checks the options that not every source takes, and sets the period and what else differs in the settings; the other
     settings are made. 0 or ONSTACK_E_*, with *fault as in options.h. Any thread. */
  int (*check)(const onstack_options *options, onstack_settings *settings, const char **fault);

  /* Begins to sample: the slot is RUNNING then. ONSTACK_E_* or -errno: no sample was made, or it is stopped again. Under the
     control lock. */
  int (*start)(onstack_slot *slot, const onstack_settings *settings);

  /* What is to be done each time that the consumer has emptied the ring. Returns true if the consumer of a process that sleeps
     may stay away for long: the first sample wakes it. Under the consumer lock. The sink may fork and return in the child,
     where the slot is no more the session's. */
  bool (*tend)(onstack_slot *slot, const onstack_source_round *round);

  /* Ends it: the slot is STOPPING, and no sample is or will be made when it returns. The ring has the last ones. Under the
     control lock. */
  void (*stop)(onstack_slot *slot);

  /* The slot is given back, and the sink has had all. Under the control lock, or in the child of a fork instead of `stop`:
     async-signal-safe. NULL: there is nothing to do. */
  void (*drop)(onstack_slot *slot);

  /* Its own part of a session's statistics. Any thread. NULL: it has none. */
  void (*fill)(const onstack_slot *slot, onstack_stats *stats);
} onstack_source;

ONSTACK_INTERNAL_DATA const onstack_source onstack_source_cpu;         /* CPU time, by timers */
ONSTACK_INTERNAL_DATA const onstack_source onstack_source_wall;        /* real time, by looks from outside */
ONSTACK_INTERNAL_DATA const onstack_source onstack_source_wall_signal; /* real time, by timers */
ONSTACK_INTERNAL_DATA const onstack_source onstack_source_heap;        /* allocations */

/* A part of `check` for sources of time: the period by a frequency. `usual`: where none is given. */
ONSTACK_INTERNAL int onstack_source_check_rate(const onstack_options *options, uint32_t usual, onstack_settings *settings,
                                               const char **fault);

#endif
