/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the two programs of this directory: a software event of perf_event_open(2) whose overflows send a signal. */
#ifndef CLOCKS_H
#define CLOCKS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct perf_clock {
  uint64_t config; /* PERF_COUNT_SW_CPU_CLOCK or _TASK_CLOCK */
  uint64_t period_ns;
  int signal;
  bool no_kernel, inherit;
} perf_clock;

/* An event of the calling thread, not yet running, whose signals go to this thread; -errno. */
int perf_open(const perf_clock *clock);
void perf_switch(int file, bool on);

int32_t thread_id(void);
double seconds_of(int clock); /* CLOCK_* */
void burn_user(double cpu_seconds);
void burn_kernel(double cpu_seconds); /* in read(2) of /dev/zero */

#endif
