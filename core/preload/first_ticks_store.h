/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where first ticks lie until somebody takes them: between first_ticks.c, whose handler puts them there, and
   first_ticks_store.c, which gives them to a profile. */
#ifndef ONSTACK_PRELOAD_FIRST_TICKS_STORE_H
#define ONSTACK_PRELOAD_FIRST_TICKS_STORE_H

#include "base/atomics.h"
#include "base/loader.h"
#include "handler/tick/kept.h"
#include "session/start.h"
#include "session/statistics_text.h"

#define ONSTACK_FIRST_TICKS_DEPTH 100u
/* 1 MiB; with the stacks 28 MiB of addresses, of which what is used becomes memory. */
#define ONSTACK_FIRST_TICKS_ENTRIES 1024u
#define ONSTACK_FIRST_TICKS_VDSO 16384u /* bytes that it takes at most */

enum { ONSTACK_FIRST_TICKS_FREE, ONSTACK_FIRST_TICKS_CLAIMED, ONSTACK_FIRST_TICKS_FILLED };

typedef struct onstack_first_ticks_entry {
  uint32_t weight;
  uint32_t birth; /* of the child */
  uint32_t map;   /* the sequence of its map of modules, before the walk (handler/unwind/rules/rules.h) */
  uint32_t kept;  /* its stack's number among those that are kept; 0: it is not */
  int32_t tid;
  uint16_t count;
  uint16_t truncation;
  uint64_t time_ns;
  uint64_t name[2];
  uint64_t frames[ONSTACK_FIRST_TICKS_DEPTH];
  uint8_t unwound_by[ONSTACK_FIRST_TICKS_DEPTH];
} onstack_first_ticks_entry;

/* Shared by a process that has a session and its children, each of which may have written anything: whoever reads it checks
   each number that leads to memory. */
typedef struct onstack_first_ticks_store {
  uint32_t open;    /* somebody collects, */
  uint32_t births;  /* of children that share it. Process ids are another's in a namespace */
  uint64_t seen_ns; /* and did so last (CLOCK_MONOTONIC): who was killed has not closed it */
  uint64_t lost;    /* ticks that could not be kept */
  /* A child that is killed between claim and fill leaves its entry claimed: one of many, and it is not waited for. Apart from
     the entries, of which so many become memory as are in use at a time. */
  uint32_t states[ONSTACK_FIRST_TICKS_ENTRIES];
  onstack_first_ticks_entry entries[ONSTACK_FIRST_TICKS_ENTRIES];
  onstack_kept stacks[ONSTACK_KEPT_STACKS]; /* the same holds for them */
} onstack_first_ticks_store;

/* Of one process each; the child of a fork has a copy. */
typedef struct onstack_first_ticks_here {
  uint64_t vdso;                   /* where it begins */
  onstack_session_walk walk;       /* of the session that is, or of the parent's; written before `open` */
  uint32_t wanted;                 /* a session is on: its children share with it */
  onstack_first_ticks_store *own;  /* this process collects from it; NULL: it has not forked yet */
  onstack_first_ticks_store *into; /* where this process's lie */
  bool alone;                      /* there it takes them itself, nobody shares it */
  onstack_loader_counts loaded;    /* ... what was loaded when it was made */
  uint32_t held;                   /* ... ticks that lie there */
  uint32_t inside;                 /* handlers (dekker) */
  uint32_t birth;                  /* of this process, in its parent's store */
  uint64_t samples, weight;        /* that are in this process's profile */
  uint64_t truncated;              /* of the samples */
  uint64_t lost;                   /* of its own ticks, when it was alone */
} onstack_first_ticks_here;

ONSTACK_INTERNAL_DATA onstack_first_ticks_here onstack_first_ticks;

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER bool onstack_first_ticks_is_vdso(uint64_t address) {
  return address - onstack_first_ticks.vdso < ONSTACK_FIRST_TICKS_VDSO;
}

/* A session of this process samples CPU time: from here on its children share memory with it. The keeper. */
ONSTACK_INTERNAL void onstack_first_ticks_open(const onstack_session *session);

/* It is about to end: children that have no session yet get one with their next tick. Signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_close(void);

/* Gives what children have sampled to the profile: what is older than a moment, or `all`. Returns how many samples that was.
   The keeper, while the session runs; or with none (NULL), when no stack is walked further. */
ONSTACK_INTERNAL uint32_t onstack_first_ticks_collect(onstack_session *session, onstack_profile *profile, bool all);

/* Makes memory for the ticks of this process itself, which has no session and shares with none. False: a session of these
   options has no ticks that can be kept, and nothing is left. In the constructor. */
ONSTACK_INTERNAL bool onstack_first_ticks_alone(const onstack_options *options);

/* There is such memory, and no session. Any thread. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_alone(void);

/* Ticks lie there that nobody else will take: a session has to, before the process ends or becomes another program. Any
   thread. */
ONSTACK_INTERNAL bool onstack_first_ticks_are_held(void);

/* Gives this process's own first ticks to its profile, as far as nobody has collected them. The keeper, while the session
   runs. */
ONSTACK_INTERNAL void onstack_first_ticks_take_back(onstack_session *session, onstack_profile *profile);

/* What is in the profile of this process; `unattributed` are those that were lost. The keeper. */
ONSTACK_INTERNAL onstack_statistics_more onstack_first_ticks_count(void);

/* A line of what is in the profile of this process, if there is anything; 0 or what `write` returns. The keeper. */
ONSTACK_INTERNAL int onstack_first_ticks_tell(int (*write)(void *data, const void *bytes, size_t length), void *data);

/* Before fork: makes the memory that is shared, once. Signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_store_before_fork(void);

/* In the child of a fork. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_first_ticks_store_forked(void);

#endif
