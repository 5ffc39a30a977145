/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads of the preload: detached, known as the library's own, with every signal blocked. */
#ifndef ONSTACK_PRELOAD_DETACHED_THREAD_H
#define ONSTACK_PRELOAD_DETACHED_THREAD_H

#include "platform/sys.h"

#include <stddef.h>

/* Returns 0 or an error of pthread_create. *mask (NULL: not wanted): the caller's signal mask. `run` calls
   onstack_own_enter and onstack_own_leave. */
ONSTACK_INTERNAL int onstack_preload_thread(size_t stack_bytes, void *(*run)(void *), onstack_kernel_sigset *mask);

#endif
