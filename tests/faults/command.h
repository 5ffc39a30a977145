/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program in place of the subject, whose calls the checker sees too. */
#ifndef ONSTACK_FAULTS_COMMAND_H
#define ONSTACK_FAULTS_COMMAND_H

#include "plan.h"

/* In the child: executes plan->command, with the page of the plan at PLAN_FD. */
void command_run(plan *plan, int page, int socket) __attribute__((noreturn));

#endif
