/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Function names that can be looked up in a signal handler: everything is read and sorted in advance, in ordinary
 * threads, and a look-up is a binary search in memory that stays.
 *
 * A set is what was loaded at one moment, immutable, published as a whole. The tables of a file are made once and kept
 * for the life of the process, as files come back at other addresses (dlclose, dlopen). So are copies of the names of
 * the functions in them: the file, which may be one with debug information that nobody else has open, can be truncated
 * or written over without harm.
 */
#ifndef ONSTACK_PROFILE_ELF_SYMBOL_INDEX_H
#define ONSTACK_PROFILE_ELF_SYMBOL_INDEX_H

#include "platform/defs.h"
#include "platform/elf_file.h"
#include "profile/maps/maps.h"

typedef struct onstack_symbol_entry {
  uint32_t start; /* virtual address in the file */
  uint32_t bytes;
  uint32_t name; /* place in the file's `names` */
} onstack_symbol_entry;

/* The functions of a file by rising start. Of one start the longest comes first: a shorter one has the better name. */
typedef struct onstack_symbol_file {
  uint64_t device;
  uint64_t inode;
  onstack_elf_build_id build_id;
  onstack_elf_stamp stamp; /* where it has no build id */
  onstack_symbol_entry *entries;
  size_t count;
  const char *names; /* each NUL-terminated */
} onstack_symbol_file;

typedef struct onstack_symbol_module {
  uint64_t start; /* the executable mapping */
  uint64_t limit;
  uint64_t difference; /* virtual address minus address */
  const onstack_symbol_file *file;
} onstack_symbol_module;

typedef struct onstack_symbol_set {
  size_t count;
  onstack_symbol_module modules[]; /* sorted by address, disjoint */
} onstack_symbol_set;

/* The functions of a mapping's file. NULL: it has none that can be read, or memory is out. Ordinary threads; the caller
   lets one in at a time. */
ONSTACK_INTERNAL const onstack_symbol_file *onstack_symbol_file_get(const onstack_profile_mapping *mapping);

/* A set of these mappings; malloc'ed, the caller's. NULL when memory is out. As above. */
ONSTACK_INTERNAL onstack_symbol_set *onstack_symbol_set_new(const onstack_profile_maps *maps);

/* The function at a look-up address and its entry point; NULL: none covers it. Signal-safe. */
ONSTACK_INTERNAL const char *onstack_symbol_set_find(const onstack_symbol_set *set, uint64_t address, uint64_t *entry);

/*
 * Copies the names of many symbols out of an image's string table into one block of memory: a name that is handed out
 * for the life of the process must not hang on a file that can be truncated or written over. Names are asked for by
 * rising offset, so that the table is read once and in pieces, and linkers' shared tails ("bar" inside "foobar") are
 * copied once: the block is never larger than the table is.
 */

typedef struct onstack_symbol_names {
  char *text; /* malloc'ed, the caller's; place 0 holds the empty name */
  size_t used, capacity;
  /* The rest is of symbol_index.c. */
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
