/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A process as /proc shows it to others. */
#ifndef ONSTACK_FAULTS_OUTSIDE_H
#define ONSTACK_FAULTS_OUTSIDE_H

#include <stdbool.h>

typedef struct outside {
  int threads, fds, timers;
  int profiling; /* what SIGPROF does there: 0 default, 1 ignored, 2 caught */
} outside;

outside outside_look(int pid);
bool outside_same(const outside *a, const outside *b);

#endif
