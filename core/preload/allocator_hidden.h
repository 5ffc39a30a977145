/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Allocators that were linked into a program or a library under names of their own, which are not exported: jemalloc and
   mimalloc in Rust programs, DuckDB's. */
#ifndef ONSTACK_PRELOAD_ALLOCATOR_HIDDEN_H
#define ONSTACK_PRELOAD_ALLOCATOR_HIDDEN_H

#include "platform/defs.h"

#define ONSTACK_HIDDEN_NAME 64u

/* The first such malloc in a file's symbol table ("_rjem_malloc"). False: it has none, or no symbol table. Ordinary threads;
   streams past the names, which of a large program takes milliseconds. */
ONSTACK_INTERNAL bool onstack_allocator_hidden(const char *path, char name[ONSTACK_HIDDEN_NAME]);

#endif
