/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Many hosts block every signal while they make a thread, so that their own handlers run elsewhere. Such a thread would have no
 * samples. So a thread that the host makes by pthread_create begins with SIGPROF unblocked, and with the rest of its
 * creator's mask. A thread that blocks the signal itself later has no samples.
 */
#ifndef ONSTACK_PRELOAD_INTERPOSE_THREAD_H
#define ONSTACK_PRELOAD_INTERPOSE_THREAD_H

#include "platform/defs.h"

/* Unblocks SIGPROF in the threads that the host makes from now on. In the constructor, if the session's clock is the CPU time:
   the ticks of the other clocks that signal meet sleeping threads, which do not expect EINTR. */
ONSTACK_INTERNAL void onstack_new_threads_take_ticks(void);

#endif
