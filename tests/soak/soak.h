/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The soak: everything that can disturb a profiler, at once, for as long as one likes (main.c says how it runs and what
 * must hold). A disturbance is a file with a worker function; main.c has the table of workers.
 */
#ifndef ONSTACK_TESTS_SOAK_H
#define ONSTACK_TESTS_SOAK_H

#include "onstack/onstack.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct soak_worker {
  const char *name;
  void (*run)(struct soak_worker *worker); /* returns soon after soak_resting */
  int number;                              /* which one of its kind */
  unsigned seed;
  volatile bool works;
  uint64_t beats; /* rises with each thing done; the watchdog looks at it */
  pthread_t thread;
} soak_worker;

extern volatile bool soak_resting; /* the round is over */
extern const char *soak_place;     /* the directory with the plugins and the copies of the library */

/* Prints a line and remembers the failure. Not in a forked child. */
void soak_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint32_t soak_random(unsigned *seed, uint32_t below);
double soak_now(void);
void soak_sleep(double seconds); /* a signal does not cut it short */
void soak_burn(double cpu_seconds);
void soak_beat(soak_worker *worker);
void soak_count(uint64_t *counter, uint64_t more);
void soak_most(uint64_t *most, uint64_t value);

/* ---- sessions.c ---- */

typedef struct soak_sums {
  uint64_t sessions, refused; /* refused: EAGAIN, the user's queued signals are used up by others */
  uint64_t ticks, recorded, unattributed, ring_full, no_stack, unwinder, stopping, sink, truncated;
  uint64_t forwarded, swallowed, late, looped;
  uint64_t slowest_start_us, slowest_stop_us, profile_bytes;
} soak_sums;
extern soak_sums soak_sessions;

void soak_open_copies(void);
uint64_t soak_own_memory(void);                  /* bytes: what the library and its copies say that they keep */
void soak_run_sessions(soak_worker *worker);     /* of the library that is linked in */
void soak_run_a_copy(soak_worker *worker);       /* of the copy with the worker's number */
void soak_run_other_signal(soak_worker *worker); /* on SOAK_OTHER_SIGNAL */
/* One short session from start to closed accounting; 0, or what went wrong. For forked children. */
int soak_one_session(unsigned *seed);

/* ---- heap.c ---- */

typedef struct soak_heap_sums {
  uint64_t sessions, allocations, samples, ended, ring_full, untracked;
} soak_heap_sums;
extern soak_heap_sums soak_heap;
extern uint64_t soak_blocks;

void soak_run_heap(soak_worker *worker);  /* one session at a time can be: one worker */
void soak_run_storm(soak_worker *worker); /* allocates, moves and frees */
void soak_storm_once(unsigned *seed);     /* in a child of fork, too */
void soak_storm_forget(void);             /* in the child, before */

/* ---- signals.c ---- */

#define SOAK_OTHER_SIGNAL (SIGRTMIN + 4)

typedef struct soak_signal_sums {
  uint64_t sent, merged; /* SIGPROF; merged by the kernel, or lost */
  uint64_t queued;       /* of the real-time signal: the kernel merges none */
  uint64_t itimer, timer, owners;
} soak_signal_sums;
extern soak_signal_sums soak_signals;

/* The signal whose owners run on the interrupted stack in this round: not one that wild code may get. */
extern int soak_needs_stack;
void soak_install_first_owner(int round);
bool soak_first_owner_is_back(void);
/* Sends the calling thread a signal that nobody's clock recognizes. Returns how often an owner got it: 1 is right; for
   SIGPROF 0 can be the kernel's doing (a tick was pending in that instant). */
int soak_send(int signal);
void soak_run_sender(soak_worker *worker);
void soak_run_owners(soak_worker *worker);

/* ---- posts.c ---- */

extern uint64_t soak_posts;
/* A place where the calling thread can be reached, or -1; to be left before the thread ends. */
int soak_posts_open(void);
void soak_posts_close(int place);
void soak_post(unsigned *seed);       /* one to whoever stands in some place */
bool soak_posts_take(uint64_t value); /* in a handler; false: it is none of these */
void soak_check_posts(void);          /* when all threads with a place but the caller have ended */

/* ---- trend.c ---- */

typedef struct soak_trend {
  uint64_t early, late, sessions; /* bytes; sessions between them */
} soak_trend;
void soak_trend_add(uint64_t bytes, uint64_t sessions); /* of the process without the library's own; each round, at rest */
bool soak_trend_check(soak_trend *trend);               /* false: too few rounds to say anything */

/* ---- memory.c, burners.c, wild.c, threads.c, modules.c, forks.c, fibers.c ---- */

extern uint64_t soak_forks, soak_forks_executed, soak_forks_sent, soak_forks_merged; /* sent, merged: their SIGPROF */
extern uint64_t soak_threads, soak_flips, soak_fibers;
extern uint64_t soak_modules, soak_modules_failed, soak_modules_in_place; /* in_place: where another one lay before */
extern uint64_t soak_wild, soak_wild_samples;                             /* bursts, and samples taken in them */

void soak_run_flips(soak_worker *worker); /* memory that comes and goes */
uint64_t soak_somewhere(unsigned *seed);  /* a number for a register: memory of all kinds, or none */
void soak_burn_wildly(unsigned *seed);    /* about a millisecond with random registers */
void soak_run_burner(soak_worker *worker);
void soak_reserve_wild_pages(void);
bool soak_is_wild(uint64_t address);      /* in a place for generated code */
uint64_t soak_wild_place(unsigned *seed); /* such a place; there is code or none */
void soak_run_wild(soak_worker *worker);
void soak_run_threads(soak_worker *worker);
void soak_run_modules(soak_worker *worker);
void soak_run_failing(soak_worker *worker); /* libraries that cannot be opened, but are listed for a moment */
void soak_run_fibers(soak_worker *worker);  /* number 0 works on them, 1 unmaps them */
void soak_run_forks(soak_worker *worker);

/* A thread on a stack of its own mapping, with guards at both ends, which is unmapped when it is joined. It gets posts. */
typedef struct soak_stack {
  void *(*run)(void *);
  void *data;
  uint8_t *base;
  size_t bytes;
  pthread_t thread;
} soak_stack;
bool soak_stack_start(soak_stack *stack, size_t bytes, void *(*run)(void *), void *data);
void soak_stack_join(soak_stack *stack);

#endif
