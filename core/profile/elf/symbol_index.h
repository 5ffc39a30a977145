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

#endif
