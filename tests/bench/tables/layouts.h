/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The same rules in other layouts, to compare with the one that onstack uses (four bytes a row: 16 bits of offset in a
 * chunk of 64 KiB, 16 bits of rule number). All find the same row.
 */
#ifndef ONSTACK_BENCH_LAYOUTS_H
#define ONSTACK_BENCH_LAYOUTS_H

#include "sampler/unwind/rules.h"

typedef struct layout {
  const char *name;
  /* From onstack's table; NULL: no memory. */
  void *(*make)(const onstack_rule_table *table, size_t *bytes);
  /* Something that depends on the rule at the offset; the same in every layout. 0: no rule. */
  uint64_t (*look_up)(const void *made, uint64_t offset);
} layout;

extern const layout layouts[];
extern const size_t layout_count;

#endif
