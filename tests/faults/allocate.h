/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_FAULTS_ALLOCATE_H
#define ONSTACK_FAULTS_ALLOCATE_H

#include "plan.h"

/* From now on allocations fail as this plan says. */
void allocate_under(plan *plan);

/* Allocations that have not been freed. */
long allocate_live(void);

#endif
