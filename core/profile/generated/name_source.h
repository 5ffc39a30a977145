/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The seam for names of generated code: each way in which an engine says what its code is called is a variant in a file of its
 * own, and a row in name_source.c, whose order is that of trust. What the variants share is in generated.h.
 */
#ifndef ONSTACK_PROFILE_GENERATED_NAME_SOURCE_H
#define ONSTACK_PROFILE_GENERATED_NAME_SOURCE_H

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

#endif
