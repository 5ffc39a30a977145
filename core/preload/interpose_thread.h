/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Many hosts block every signal while they make a thread, so that their own handlers run elsewhere. Such a thread would have no
 * samples. So a thread that the host makes by pthread_create begins with SIGPROF unblocked, and with the rest of its
 * creator's mask. A thread that blocks the signal itself later has no samples.
 */
#ifndef ONSTACK_PRELOAD_INTERPOSE_THREAD_H
#define ONSTACK_PRELOAD_INTERPOSE_THREAD_H

#include "platform/defs.h"
#include "platform/sys.h"

#include <stddef.h>

/* Unblocks SIGPROF in the threads that the host makes from now on. In the constructor, if the session's clock is the CPU time:
   the ticks of the other clocks that signal meet sleeping threads, which do not expect EINTR. */
ONSTACK_INTERNAL void onstack_new_threads_take_ticks(void);

/* ---- threads of the preload: detached, known as the library's own, with every signal blocked ---- */

/* Returns 0 or an error of pthread_create. *mask (NULL: not wanted): the caller's signal mask. `run` calls
   onstack_own_enter and onstack_own_leave. */
ONSTACK_INTERNAL int onstack_preload_thread(size_t stack_bytes, void *(*run)(void *), onstack_kernel_sigset *mask);

#endif
