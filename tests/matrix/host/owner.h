/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Another owner of SIGPROF, in plain C: ITIMER_PROF and a POSIX timer for each worker, and a handler that counts. It knows
 * whether the kernel called it or somebody who forwards, so that "each foreign tick is forwarded once, none of ours is"
 * can be said exactly.
 */
#ifndef MATRIX_OWNER_H
#define MATRIX_OWNER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef enum owner_style {
  OWNER_BARE,   /* keeps its signals; at its end puts the bare pointer back, with flags and mask of its own, as Go does */
  OWNER_POLITE, /* keeps its signals; at its end puts the whole action back */
  OWNER_CHAIN,  /* passes on what it gets; at its end puts the whole action back */
} owner_style;

/* All of them: the driver's thread. owner_start takes the threads that are to get timers. 0 or an errno. */
int owner_start(owner_style style, const pid_t *threads, int count);
void owner_stop(void);
/* In ticks of 10 ms, overruns included. */
long long owner_samples(void);
void owner_describe(FILE *out);

#endif
