/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this library maps for itself, so that an account of the process's memory can name it, and when it allocates. */
#ifndef ONSTACK_PLATFORM_OWN_MEMORY_H
#define ONSTACK_PLATFORM_OWN_MEMORY_H

#include "platform/defs.h"

/* A mapping that stays for good, of which only touched pages are in memory. Start only, under the control lock. */
ONSTACK_INTERNAL void onstack_own_memory_keeps(void *memory, size_t bytes);
/* Bytes that came (or went, below 0), and are in memory as a whole. Any thread. */
ONSTACK_INTERNAL void onstack_own_memory_changes(int64_t bytes);
/* Bytes in memory, for a look at the whole process. Ordinary threads. */
ONSTACK_INTERNAL uint64_t onstack_own_memory_resident(void);

/* Whether a thread of the host's works for this library: then what it allocates is in no heap profile of the host's. */

/* How many calls that say so the thread is in. Initial-exec: it is read on the way of an allocation, where the loader must not
   be called. A host's function that leaves such a call by longjmp leaves the thread's allocations out from then on. */
#define ONSTACK_OURS_MODEL __attribute__((tls_model("initial-exec")))
ONSTACK_INTERNAL_DATA __thread uint32_t onstack_ours ONSTACK_OURS_MODEL;

#endif
