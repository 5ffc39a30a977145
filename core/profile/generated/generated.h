/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The seam for names of generated code: each way in which an engine says what its code is called is a variant in a file of its
 * own, and a row in generated.c, whose order is that of trust.
 */
#ifndef ONSTACK_PROFILE_GENERATED_GENERATED_H
#define ONSTACK_PROFILE_GENERATED_GENERATED_H

#include "platform/defs.h"
#include "profile/elf/symbol_table.h"
#include "profile/maps/maps.h"

struct onstack_profile_stack; /* profile/store/stacks.h */

/* What there is to go by. */
typedef struct onstack_name_context {
  const onstack_profile_maps *maps;
  const struct onstack_profile_stack *stacks; /* whose addresses the table has */
  size_t stack_count;
  const uint32_t *numbers; /* of a stack's frame, its number in the table */
} onstack_name_context;

typedef struct onstack_name_source {
  /* Names addresses of the table that have no name yet and lie in no program or library. A source that says nothing, or
     nonsense, names nothing. Without a lock. Errors: -ENOMEM. */
  int (*give)(onstack_symbol_table *table, const onstack_name_context *context);
} onstack_name_source;

ONSTACK_INTERNAL_DATA const onstack_name_source onstack_name_source_jitdump;  /* files for perf, with lines */
ONSTACK_INTERNAL_DATA const onstack_name_source onstack_name_source_perf_map; /* files for perf, without lines */

/* By all of them. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_name_sources_give(onstack_symbol_table *table, const onstack_name_context *context);

/*
 * The addresses of a report that lie in generated code and have no name yet, for those who know what compilers at run time
 * say of their code. One thread, one report; no lock.
 */

#define ONSTACK_GENERATED_NAME 4096u /* names are cut to this, with their NUL */

typedef struct onstack_generated_item {
  uint64_t address; /* as the process has it */
  uint32_t number;
} onstack_generated_item;

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
