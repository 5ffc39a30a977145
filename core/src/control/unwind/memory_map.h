/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads /proc/self/maps (proc(5)) without libc's streams: usable in our drain thread beside any host. */
#ifndef ONSTACK_CONTROL_UNWIND_MEMORY_MAP_H
#define ONSTACK_CONTROL_UNWIND_MEMORY_MAP_H

#include "base/defs.h"

typedef struct onstack_mapping {
  uint64_t low;
  uint64_t high;
  uint64_t offset;  /* in its file */
  const char *path; /* for the call; "" where there is none, and cut when it is very long */
  bool readable, writable, executable, shared;
  bool anonymous; /* inode 0: memory, stack, heap, [vdso] */
} onstack_mapping;

/* Calls `visit` for each mapping in ascending order. Returns 0, or -errno when the file cannot be read. Any thread. */
ONSTACK_INTERNAL int onstack_memory_map_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data);

#endif
