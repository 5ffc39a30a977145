/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kernel's list of the process's threads. */
#ifndef ONSTACK_SAMPLER_THREADS_TASK_LIST_H
#define ONSTACK_SAMPLER_THREADS_TASK_LIST_H

#include "platform/defs.h"

/*
 * Visits the thread ids of /proc/self/task, in no order. A thread that comes or ends meanwhile may be visited or not. Returns
 * -errno where the list cannot be read, or not to its end; -ENOENT where it is empty.
 *
 * Any thread, no allocation: our own threads look each 10 ms, and the child of a fork at that instant would find the lock of an
 * allocator without atfork handlers (a sanitizer's) taken for ever.
 */
ONSTACK_INTERNAL int onstack_task_list_each(void (*visit)(void *data, uint32_t tid), void *data);

/* How many the process has; 0, and errno says why: not known. Any thread. */
ONSTACK_INTERNAL uint64_t onstack_task_list_number(void);

/*
 * True if /proc shows another PID namespace than that of the calling thread (unshare or clone with CLONE_NEWPID, /proc not
 * mounted again): the list's ids are then not those that system calls take. False where nobody can tell.
 */
ONSTACK_INTERNAL bool onstack_task_list_is_foreign(void);

#endif
