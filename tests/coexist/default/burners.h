/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that burn, and hold every signal back for a part of the time, as libc does around pthread_create and Go around
 * fork: a tick that falls there is still pending when a profiler stops.
 */
#ifndef COEXIST_BURNERS_H
#define COEXIST_BURNERS_H

#include <sys/types.h>

#define BURNERS 16

void burners_start(void); /* returns when all of them burn; a failure ends the program */
pid_t burners_thread(int which);
void burners_stop(void);

#endif
