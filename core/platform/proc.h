/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What /proc says of the process (proc(5)): its mappings, its threads' states, its program. */
#ifndef ONSTACK_PLATFORM_PROC_H
#define ONSTACK_PLATFORM_PROC_H

#include "platform/defs.h"

/* ---- /proc/self/maps, by system calls and without an allocation: beside any host, whatever it does to its libc ---- */

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

/* ---- /proc/PID/stat and /proc/PID/task/TID/stat. Ordinary threads ---- */

/* Where the state stands in a line, behind the name, which may hold spaces and parentheses; NULL: nowhere. */
ONSTACK_INTERNAL const char *onstack_proc_stat_state(const char *line);

/* How long ago the thread or process began, by the line from the state on; 0: it does not say. */
ONSTACK_INTERNAL uint64_t onstack_proc_stat_age_ns(const char *state);

/* The stack pointer at the entry of this process's program; 0: nobody says. */
ONSTACK_INTERNAL uint64_t onstack_proc_stat_main_sp(void);

/* ---- the program's file ---- */

/*
 * Returns the link in /proc that leads to the program's file, even if that file was renamed or deleted. /proc/self is the first
 * thread's directory and loses the link when that thread has ended before the others; then it is /proc/thread-self/exe (Linux
 * 3.17). Not the latter alone: qemu-user emulates /proc/self/exe only. Context: ordinary threads; keeps errno.
 */
ONSTACK_INTERNAL const char *onstack_own_executable(void);

#endif
