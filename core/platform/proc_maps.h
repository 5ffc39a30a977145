/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* /proc/self/maps (proc(5)), by system calls and without an allocation: beside any host, whatever it does to its libc. */
#ifndef ONSTACK_PLATFORM_PROC_MAPS_H
#define ONSTACK_PLATFORM_PROC_MAPS_H

#include "platform/defs.h"

typedef struct onstack_mapping {
  uint64_t low;
  uint64_t high;
  uint64_t offset; /* in its file */
  uint64_t device;
  uint64_t inode; /* 0: anonymous memory, stack, heap, [vdso] */
  bool readable, writable, executable, shared;
  bool deleted;     /* the file has no name any more; the mark is cut off */
  const char *path; /* with its NUL, for the call; "" where there is none; the kernel's "\012" is a line end again */
  size_t path_length;
} onstack_mapping;

/*
 * Calls `visit` for each mapping in ascending order; what changes meanwhile may be missing, or overlap. A path that is too
 * long for any open(2) is cut. Errors: -errno, when the file cannot be read (to its end). Ordinary threads.
 */
ONSTACK_INTERNAL int onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data);

/*
 * The same of /proc/self/smaps (Linux 2.6.14): behind each mapping `resident` gets its bytes in memory. The kernel looks at
 * every page for that, some milliseconds for each GiB.
 */
ONSTACK_INTERNAL int onstack_proc_smaps_each(void (*visit)(void *data, const onstack_mapping *mapping),
                                             void (*resident)(void *data, uint64_t bytes), void *data);

/* Takes a line apart, in place: `line` has a byte of room behind its end. False where it makes no sense. */
ONSTACK_INTERNAL bool onstack_proc_maps_parse(char *line, size_t length, onstack_mapping *mapping);

#endif
