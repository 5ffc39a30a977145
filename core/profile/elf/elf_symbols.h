/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Function symbols for a batch of addresses. A symbol counts only for addresses inside [value, value + size): the
 * nearest symbol below is a lie where a table has gaps, and .dynsym has more gaps than symbols.
 *
 * The table is streamed once past the sorted addresses and never held in memory: symbol tables of a few hundred MB are
 * no rarity, and a profile asks for a few thousand addresses at most.
 */
#ifndef ONSTACK_PROFILE_ELF_ELF_SYMBOLS_H
#define ONSTACK_PROFILE_ELF_ELF_SYMBOLS_H

#include "platform/defs.h"
#include "platform/elf_file.h"
#include "profile/maps/maps.h"
#include "profile/store/store.h"

typedef struct onstack_elf_query {
  uint64_t address; /* in: virtual, as in the file */
  uint32_t number;  /* the caller's */
  const char *name; /* out: in the caller's arena; NULL: no symbol covers it. Queries with a name are skipped */
  /* The best symbol so far; of elf_symbols.c. */
  uint64_t value;
  uint32_t name_offset;
  uint32_t rank; /* 0: none */
} onstack_elf_query;

/*
 * Looks in the table of this type (ONSTACK_ELF_SECTION_SYMTAB or _DYNSYM) for every query that has no name yet.
 * `queries` are sorted by address. Errors: -ENOMEM; a broken table names less, or nothing.
 */
ONSTACK_INTERNAL int onstack_elf_symbols_find(const onstack_elf_file *file, uint32_t table_type, onstack_elf_query *queries,
                                              size_t count, onstack_profile_arena *names);

/* The first table of that type that is not empty and lies inside the file as a whole, with its names; NULL: there is none. */
ONSTACK_INTERNAL const onstack_elf_section *onstack_elf_symbols_table(const onstack_elf_file *file, uint32_t table_type);

/*
 * Hands the symbols of a table, which lies inside the file, to `visit` until it returns false or the file cannot be read
 * any further. Errors: -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_elf_symbols_each(const onstack_elf_file *file, const onstack_elf_section *table,
                                              bool (*visit)(void *data, const onstack_elf_symbol *symbol), void *data);

/* How good a name a symbol is for the code that it covers; 0: it is no function. */
ONSTACK_INTERNAL uint32_t onstack_elf_symbol_rank(const onstack_elf_file *file, const onstack_elf_symbol *symbol);

/* Where the symbols of a mapped module are: the file itself, its separate debug file, or the image in memory. */

/*
 * Names queries (sorted virtual addresses) from .symtab, then from the .symtab of the debug file of the build id, then
 * from .dynsym. A file whose build id is another than that of the mapped code (replaced since) is not used.
 * Errors: -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_elf_module_symbols(const onstack_profile_mapping *mapping, onstack_elf_query *queries,
                                                size_t count, onstack_profile_arena *names);

/*
 * Opens the file with the best symbol table of a module: its own if that has .symtab, else its debug file, else its own.
 * The caller closes it. Errors: -errno, -ENOEXEC, -ENOMEM; nothing is open then.
 */
ONSTACK_INTERNAL int onstack_elf_module_open_best(onstack_elf_file *file, const onstack_profile_mapping *mapping);

#endif
