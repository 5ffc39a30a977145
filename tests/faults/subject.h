/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The program under test: a session over a little work, a profile, and a second session without failures. */
#ifndef ONSTACK_FAULTS_SUBJECT_H
#define ONSTACK_FAULTS_SUBJECT_H

#include "plan.h"

/* In the child. `socket`: for the filter's descriptor; closed. Does not return. */
void subject_run(plan *plan, int socket) __attribute__((noreturn));

#endif
