/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs a subject under a plan and says what was wrong. */
#ifndef ONSTACK_FAULTS_CHECKER_H
#define ONSTACK_FAULTS_CHECKER_H

#include "plan.h"

/* A page for plans, shared with the subjects. */
plan *checker_plan(void);

/*
 * Forks a subject under `plan` (its first part is filled in) and decides on its calls until it has ended. Returns 0, or 1
 * with plan->complaint: it crashed, hung, left something behind, or complained itself.
 */
int checker_run(plan *plan);

#endif
