/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dl_iterate_phdr, and what a fork makes of it. glibc takes a lock for it that it never gives back in the child of a fork
 * whose parent had a thread inside at that instant: the child's first call would wait for ever. Threads of ours call it
 * every few milliseconds, so they are counted, and such a child lives with what its parent knew. (A thread of the host
 * inside dlopen has the same effect, and cannot be seen from here.)
 */
#ifndef ONSTACK_BASE_LOADER_H
#define ONSTACK_BASE_LOADER_H

#include "base/defs.h"

#ifdef __linux__
#include <link.h>

/* As dl_iterate_phdr; false, and no call, where the loader cannot be asked. Ordinary threads. */
ONSTACK_INTERNAL bool onstack_loader_each(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data);

/* In the child of a fork. */
ONSTACK_INTERNAL void onstack_loader_after_fork(void);
#endif

/* How often objects were loaded and unloaded so far: the same number, the same objects. 0 where the loader cannot be
   asked. Ordinary threads. */
ONSTACK_INTERNAL uint64_t onstack_loader_changes(void);

#endif
