/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This process: its memory, the part of it that is ours, its children, its clocks. */
#ifndef ONSTACK_PLATFORM_PROCESS_H
#define ONSTACK_PLATFORM_PROCESS_H

#include "platform/defs.h"

#include <time.h>

/* Copies memory of this process that others may change or unmap meanwhile; the kernel copies, so nothing faults. Returns the
   bytes from the address on that were there; 0, too, where no memory can be read so (other systems than Linux). Ordinary
   threads. */
ONSTACK_INTERNAL size_t onstack_process_memory_copy(uint64_t address, void *out, size_t size);

/* The same; whether all of it was there. */
ONSTACK_INTERNAL bool onstack_process_memory_read(uint64_t address, void *out, size_t size);

/* What this library maps for itself, so that an account of the process's memory can name it, and when it allocates. */

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

/*
 * How a process is told from those that it makes. Its id does not tell: in a PID namespace of its own (clone with
 * CLONE_NEWPID) the child of a process 1 is process 1 again.
 */

#define ONSTACK_WIPE_ON_FORK 18 /* MADV_WIPEONFORK of linux/mman.h, which older libcs do not name */

/*
 * A new word, 0, that the kernel sets to 0 again in every child with a memory of its own, whoever made it and how; a vfork
 * child shares ours. Never given back. NULL: no memory, or the kernel is older than 4.14. Ordinary threads.
 */
ONSTACK_INTERNAL uint32_t *onstack_wiped_word(void);

/* libc's clocks in nanoseconds. Ordinary threads; the handler asks the kernel (entry_handler.c). */

static inline __attribute__((unused)) uint64_t onstack_clock_ns(clockid_t clock) {
  struct timespec now = {0, 0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline __attribute__((unused)) uint64_t onstack_monotonic_ns(void) { return onstack_clock_ns(CLOCK_MONOTONIC); }

#endif
