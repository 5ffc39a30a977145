/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Copies the names of many symbols out of an image's string table into one block of memory: a name that is handed out
 * for the life of the process must not hang on a file that can be truncated or written over. Names are asked for by
 * rising offset, so that the table is read once and in pieces, and linkers' shared tails ("bar" inside "foobar") are
 * copied once: the block is never larger than the table is.
 */
#ifndef ONSTACK_PROFILE_ELF_SYMBOL_NAMES_H
#define ONSTACK_PROFILE_ELF_SYMBOL_NAMES_H

#include "platform/defs.h"
#include "platform/elf_file.h"

typedef struct onstack_symbol_names {
  char *text; /* malloc'ed, the caller's; place 0 holds the empty name */
  size_t used, capacity;
  /* The rest is of symbol_names.c. */
  const onstack_elf_file *file;
  const onstack_elf_section *table;
  char *window;
  uint64_t window_at; /* its place in the table */
  size_t window_bytes;
  uint64_t budget; /* bytes that may still be read */
  uint64_t last;   /* the place in the table, the length and the place in `text` of the newest name */
  size_t last_length;
  uint32_t last_copy;
} onstack_symbol_names;

/* False when memory is out: then there is nothing to close. The image and its section stay until the end. */
ONSTACK_INTERNAL bool onstack_symbol_names_begin(onstack_symbol_names *names, const onstack_elf_file *file,
                                                 const onstack_elf_section *table);

/*
 * The place in `text` of the name at an offset of the table, not below that of the last call; without the version of an
 * exported symbol (name@@VERSION). 0: it has no end, is empty, cannot be read (any more), or there is no room for it.
 */
ONSTACK_INTERNAL uint32_t onstack_symbol_names_copy(onstack_symbol_names *names, uint32_t offset);

/* What reading needed is freed; `text` stays. */
ONSTACK_INTERNAL void onstack_symbol_names_end(onstack_symbol_names *names);

#endif
