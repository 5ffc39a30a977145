/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_PLATFORM_REGULAR_FILE_H
#define ONSTACK_PLATFORM_REGULAR_FILE_H

#include "platform/defs.h"

/*
 * Opens a file that somebody else named (the loader, /proc/self/maps) for reading; only a regular one: to open a pipe
 * would wait for its other end, and a device may act. Returns its descriptor and *size; -errno, or -ENOEXEC for what is
 * no regular file. Ordinary threads.
 */
ONSTACK_INTERNAL int onstack_regular_file_open(const char *path, uint64_t *size);

#endif
