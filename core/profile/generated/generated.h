/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The addresses of a report that lie in generated code and have no name yet, for those who know what compilers at run time
 * say of their code. One thread, one report; no lock.
 */
#ifndef ONSTACK_PROFILE_GENERATED_GENERATED_H
#define ONSTACK_PROFILE_GENERATED_GENERATED_H

#include "profile/elf/symbol_table.h"
#include "profile/maps/maps.h"

#define ONSTACK_GENERATED_NAME 4096u /* names are cut to this, with their NUL */

typedef struct onstack_generated_item {
  uint64_t address; /* as the process has it */
  uint32_t number;
} onstack_generated_item;

/* Whether an address of the table has no name yet, lies in memory of no program or library, and means what lies at *real
   now. */
ONSTACK_INTERNAL bool onstack_generated_is(const onstack_symbol_table *table, const onstack_profile_maps *maps,
                                           size_t number, uint64_t *real);

/* Sorted by address. Errors: -ENOMEM; else *items is the caller's to free. */
ONSTACK_INTERNAL int onstack_generated_collect(const onstack_symbol_table *table, const onstack_profile_maps *maps,
                                               onstack_generated_item **items, size_t *count);

/* The index of the first address that is not below `start`, of items that begin with such an address each. */
ONSTACK_INTERNAL size_t onstack_generated_first(const void *items, size_t item_bytes, size_t count, uint64_t start);

/* The compiler that gives its functions such names; NULL: not known by that. */
ONSTACK_INTERNAL const char *onstack_generated_engine(const char *name);

/* Adds a function, of the engine that its name tells. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_generated_name(onstack_symbol_table *table, uint32_t number, const onstack_symbol_line *line);

#endif
