/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread of ours, the drain thread above all: calls `work` when the handler wakes it, after as many ns as it asked for,
   and once more at the end. */
#ifndef ONSTACK_SAMPLER_SESSION_WORKER_H
#define ONSTACK_SAMPLER_SESSION_WORKER_H

#include "platform/defs.h"

#include <pthread.h>

typedef struct onstack_worker {
  const char *name; /* at most 15 bytes, "onstack-..." */
  pthread_t thread;
  uint32_t *wake; /* futex word that the handler sets to 1 */
  uint32_t own_wake;
  uint32_t ready; /* futex word: 1 once the thread is known as one of ours */
  uint32_t quit;
  int unblocked_signal;         /* 0: the thread blocks every signal; else the one it leaves open (own_threads) */
  uint64_t (*work)(void *data); /* returns ns until it wants to be called again, below a second */
  void *data;
} onstack_worker;

/* Starts one that does `work`, which is woken by nobody but a stop, and returns ns until it wants to be called again. As
   onstack_worker_start. */
ONSTACK_INTERNAL int onstack_worker_start_for(onstack_worker *worker, const char *name, uint64_t (*work)(void *data),
                                              void *data);

/* Starts it with every signal blocked; returns when it is known as one of ours (sampler/signal/own_threads.h). 0 or -errno.
   Start only. */
ONSTACK_INTERNAL int onstack_worker_start(onstack_worker *worker);

/* Lets it finish, without waiting. One that was never started is left alone, here and in the next. */
ONSTACK_INTERNAL void onstack_worker_dismiss(onstack_worker *worker);

/* Lets it finish and joins it; on that very thread (an exit handler that libc runs there) does its last round. No `work`
   runs or begins after this. */
ONSTACK_INTERNAL void onstack_worker_stop(onstack_worker *worker);

#endif
