/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this library maps for itself, so that an account of the process's memory can name it. */
#ifndef ONSTACK_PLATFORM_OWN_MEMORY_H
#define ONSTACK_PLATFORM_OWN_MEMORY_H

#include "platform/defs.h"

/* A mapping that stays for good, of which only touched pages are in memory. Start only, under the control lock. */
ONSTACK_INTERNAL void onstack_own_memory_keeps(void *memory, size_t bytes);
/* Bytes that came (or went, below 0), and are in memory as a whole. Any thread. */
ONSTACK_INTERNAL void onstack_own_memory_changes(int64_t bytes);
/* Bytes in memory, for a look at the whole process. Ordinary threads. */
ONSTACK_INTERNAL uint64_t onstack_own_memory_resident(void);

#endif
