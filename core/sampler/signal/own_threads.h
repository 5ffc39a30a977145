/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads that this library has made: the drain threads, those that send ticks where there are no timers, the
 * preload's keeper. They are not sampled, and keep every signal blocked, because a host's handler has no business on them.
 *
 * But a process-wide tick that falls due on a thread which blocks its signal goes to another one, and ends that one's
 * poll() or pause() with EINTR: an idle program would be woken by our own work. So while one of them works for the
 * library alone (no sink of the host's), and nobody else has the signal, it leaves the signal open: since Linux 6.4 the
 * kernel gives such a tick to the thread on which it fell due (kernel/signal.c), and there the handler passes over it.
 */
#ifndef ONSTACK_SAMPLER_SIGNAL_OWN_THREADS_H
#define ONSTACK_SAMPLER_SIGNAL_OWN_THREADS_H

#include "platform/defs.h"
#include "platform/sys.h"

#include <signal.h>

#define ONSTACK_OWN_THREADS 32u /* more are taken for the host's */

typedef struct onstack_own_thread {
  int32_t tid;     /* 0: free. Written by the thread itself, and in the child of a fork */
  int32_t open;    /* the signal that it leaves open now; 0: none (dekker: sampler/signal/action.c takes the action away) */
  uint64_t cpu_ns; /* of its CPU time, what is in onstack_own_cpu_ns; the thread itself only */
} onstack_own_thread;

ONSTACK_INTERNAL_DATA onstack_own_thread onstack_own_threads[ONSTACK_OWN_THREADS];

/* What they have used of the process's CPU time, as of the last round of each: no sample accounts for that. */
ONSTACK_INTERNAL_DATA uint64_t onstack_own_cpu_ns;

/* A round of the calling thread, one of ours, is over. Ordinary threads. */
ONSTACK_INTERNAL void onstack_own_account(void);

/* The calling thread is one of ours from here on, until it leaves. Ordinary threads. */
ONSTACK_INTERNAL void onstack_own_enter(void);
/* Somebody is about to make one (1), or has failed to (-1). Ordinary threads. */
ONSTACK_INTERNAL void onstack_own_expect(int32_t more);
ONSTACK_INTERNAL void onstack_own_leave(void);

/* Signal-safe. */
ONSTACK_INTERNAL bool onstack_own_is(int32_t tid);
ONSTACK_INTERNAL uint32_t onstack_own_count(void);
/* With those that are about to be made, and those that have not entered yet. */
ONSTACK_INTERNAL uint32_t onstack_own_count_expected(void);

/* One is about to be made or has not entered yet, or one has left since `ns` (CLOCK_MONOTONIC): they may be fewer, or more, in
   /proc than are counted here. */
ONSTACK_INTERNAL bool onstack_own_changed_since(uint64_t ns);

/* On a thread of ours, around work that calls nothing of the host's; elsewhere without effect. Opening twice is opening
   once. */
ONSTACK_INTERNAL void onstack_own_open(int32_t signal);
/* The same without a session, where the handler that stands in is the installed one. */
ONSTACK_INTERNAL void onstack_own_open_stood_in(int32_t signal);
ONSTACK_INTERNAL void onstack_own_close(void);

/* A handler that stands below ours in place of the host's (the preload's): the default disposition, while the host has none. */
typedef struct onstack_own_stand_in {
  uint64_t handler;    /* 0: there is none */
  uint32_t has_host;   /* what it stands for is a handler (dekker, as `undisputed`) */
  uint32_t interrupts; /* one without SA_RESTART: what the installed action is to be like (sampler/signal/action.c) */
} onstack_own_stand_in;
ONSTACK_INTERNAL_DATA onstack_own_stand_in onstack_own_stands_in;

/* In the child of a fork, which has none of them. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_own_after_fork(void);

/* Every signal but libc's own: setuid() sends one to every thread and waits for all of them. What a thread of ours is made
   with; it inherits its creator's mask, which puts its own back right after. Ordinary threads. */
static inline __attribute__((unused)) onstack_kernel_sigset onstack_own_mask(void) {
  onstack_kernel_sigset every = ~(onstack_kernel_sigset)0;
  for (int signal = 32; signal < SIGRTMIN; signal++) every &= ~ONSTACK_SIGBIT(signal);
  return every;
}

/* ---- the other side (action.c): a signal's action is to change while threads of ours have it open, or a thread of
   ours has been killed ---- */

/* After `undisputed` of the signal's action was taken away: returns when no thread of ours has the signal open. One that
   waits for a lock (the loader's) which the caller may hold is not waited for longer than 0.1 s. */
ONSTACK_INTERNAL void onstack_own_wait_closed(int32_t signal);

/* Forgets the threads of ours that have ended without onstack_own_leave: a seccomp filter for all threads
   (SECCOMP_FILTER_FLAG_TSYNC) has killed them. Returns true if there was one, now or before: what it had locked stays locked.
   Ordinary threads. */
ONSTACK_INTERNAL bool onstack_own_forget_killed(void);

#endif
