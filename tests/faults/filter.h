/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* seccomp filters. */
#ifndef ONSTACK_FAULTS_FILTER_H
#define ONSTACK_FAULTS_FILTER_H

/*
 * Shows `call` (or PLAN_EVERY_CALL) of the calling thread, of all that it makes later and of the program that it executes
 * to whoever holds the other end of this socket pair. 0 or -errno.
 */
int filter_show_over(int socket, int call);

/* Refuses `call` (or PLAN_MOST_CALLS) with `error`, to every thread of the process. 0 or -errno. */
int filter_deny(int call, int error);

/* Takes the descriptor that shows them from the other end, or returns -1. */
int filter_receive(int socket);

#endif
