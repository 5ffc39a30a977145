/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes that lack something: limits, /proc, files. */
#ifndef ONSTACK_FAULTS_WORLDS_H
#define ONSTACK_FAULTS_WORLDS_H

#include "plan.h"

#include <stddef.h>

#define WORLD_WORKS 0      /* a session must work there */
#define WORLD_MAY_REFUSE 1 /* or give any named error; a negative number: or that one */

typedef struct world {
  const char *name;
  int expected;
  void (*before)(plan *); /* in the subject; they fill in plan->skipped where the kernel does not let them */
  void (*after)(plan *);
} world;

const world *worlds_all(size_t *count);

#endif
