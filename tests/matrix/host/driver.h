/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host of the matrix: takes a list of steps as arguments, does them one after the other and prints one JSON line with
 * what it saw after each. It checks nothing; checker.py does. The Go executable has the same in Go (gohost/main.go).
 *
 * Steps: G+ G- the other owner's profile (Go's, in most hosts); O+ O- ours; L+ L- load; w:MS waits until the process has burnt
 * so much CPU time; T waits until our handler is on top; R:N sends N foreign signals to the calling thread; churn:N starts and
 * stops ours N times; race:N runs both N times and stops both at once; H asks whether the runtime is whole.
 *
 * Of each step, cpu0 and cpu1 are the process's CPU time before and after it, in ns, and `sampled` the CPU time in it that
 * the other owner may sample: of threads that live on, without the driver's (which it does not know; in the Go executable
 * it does). `driver` is that of the driver's thread, where it is not Go's own.
 */
#ifndef MATRIX_DRIVER_H
#define MATRIX_DRIVER_H

#include <stdio.h>
#include <sys/types.h>

/* The CPU time of a thread of this process: CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED of the kernel's posix-timers.h. */
static inline clockid_t matrix_cpu_clock(pid_t thread) { return (clockid_t)(~(unsigned)thread << 3 | 6); }

typedef struct matrix_host {
  int (*profile_start)(void);         /* the other owner's; 0, or anything else for an error */
  long long (*profile_stop)(void);    /* its samples; negative for an error */
  int (*load_start)(const char *mix); /* 0, or anything else for an error */
  void (*load_stop)(void);            /* returns when nothing burns any more */
  int (*health)(void);                /* 0 when the runtime is whole; may be NULL */
  void (*describe)(FILE *out);        /* more members of an event, each begun by a comma; may be NULL */
} matrix_host;

/* Runs `argv[1]` (the mix) and the steps behind it. Returns the exit status: 0 when every step could be taken. */
int matrix_main(int argc, char **argv, const matrix_host *host);

/* Our side, through the public header. One session at a time. Context: the driver's thread. */
int matrix_ours_start(void);
int matrix_ours_stop(void);
/* `times` starts and stops, their counters summed up. Stops at the first error and returns it. */
int matrix_ours_churn(long times);
/* The counters of the running or the last session (or of the churn) as members of an event, each begun by a comma. */
void matrix_ours_describe(FILE *out);

/* Threads that the other owner does not know. `body` runs on each until matrix_threads_stop. */
typedef void (*matrix_body)(void);
int matrix_threads_start(int count, matrix_body body);
void matrix_threads_stop(void);

/* Some 20 us of work. */
void matrix_burn(void);

#endif
