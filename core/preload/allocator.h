/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whose malloc the process calls: this library's, which passes on to the next one's, or that of somebody who comes first. */
#ifndef ONSTACK_PRELOAD_ALLOCATOR_H
#define ONSTACK_PRELOAD_ALLOCATOR_H

#include "onstack/onstack.h"

#include "platform/defs.h"

/*
 * The file with the malloc that the process calls, if that is not this library's: the program itself, or a library that is
 * loaded before this one. Then heap profiles see nothing. NULL: it is this library's. The loader owns the text.
 */
ONSTACK_INTERNAL const char *onstack_allocator_before(void);

/* Whether libc's malloc does the work. Others may use descriptors, of the table of the thread that allocates. */
ONSTACK_INTERNAL bool onstack_allocator_is_libcs(void);

/*
 * Hands a line to the writer for each function of the process's libraries that allocates past malloc, whose blocks heap
 * profiles do not have:
 *   onstack.unseen function=operator new path=/usr/lib/libtcmalloc.so.4
 */
ONSTACK_INTERNAL void onstack_allocator_unseen(onstack_writer writer, void *data);

#endif
