/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Single-steps a child and compares onstack's walk with the shadow stack at its instructions. */
#ifndef ONSTACK_TRUTH_TRACER_H
#define ONSTACK_TRUTH_TRACER_H

#include "verdict.h"

#include <sys/types.h>

typedef struct truth_plan {
  uint64_t every;     /* compare at each n-th step; 1: at all */
  uint64_t max_steps; /* then the child is killed */
  bool whole;         /* step the first thread too */
} truth_plan;

/*
 * Traces a child that has asked for it (PTRACE_TRACEME) and stops at its exec. Ends when the child does.
 * Returns the child's exit status, -1 when it was ended by a signal or the plan, or -errno - 1.
 */
int truth_trace(pid_t child, const truth_plan *plan, truth_counts *counts);

#endif
