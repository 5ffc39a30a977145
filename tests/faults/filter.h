/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* seccomp filters. */
#ifndef ONSTACK_FAULTS_FILTER_H
#define ONSTACK_FAULTS_FILTER_H

/* Shows `call` (or PLAN_EVERY_CALL) of the calling thread and of all that it makes later to whoever reads the descriptor that is returned. Negative: -errno. */
int filter_show(int call);

/* Refuses `call` with `error`, to every thread of the process. 0 or -errno. */
int filter_deny(int call, int error);

/* Hands a descriptor over a socket pair, and takes it. The latter returns it, or -1. */
void filter_send(int socket, int fd);
int filter_receive(int socket);

#endif
