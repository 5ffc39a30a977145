/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sample types of a pprof profile: which values its samples have, by the kinds that it holds. */
#ifndef ONSTACK_PROFILE_PPROF_PPROF_COLUMNS_H
#define ONSTACK_PROFILE_PPROF_PPROF_COLUMNS_H

#include "base/kinds.h"

/* Each kind has its value, and most have a count; allocations have both also of what is in use. */
#define ONSTACK_PPROF_COLUMNS (2 * ONSTACK_KINDS)
#define ONSTACK_PPROF_NO_COLUMN UINT8_MAX

typedef struct onstack_pprof_column {
  const char *type;
  const char *unit;
} onstack_pprof_column;

typedef struct onstack_pprof_columns {
  onstack_pprof_column items[ONSTACK_PPROF_COLUMNS];
  uint32_t count;
  onstack_kind first;              /* whose value is shown first, and whose period the profile has */
  uint8_t weight[ONSTACK_KINDS];   /* the column of a kind's weight; ONSTACK_PPROF_NO_COLUMN: none */
  uint8_t value[ONSTACK_KINDS];    /* of its value */
  uint8_t held_weight, held_value; /* of what is in use; ONSTACK_PPROF_NO_COLUMN: no allocations */
  uint8_t shown;                   /* by default */
  const char *period_type;
} onstack_pprof_columns;

/* `kinds`: a bit each, 1 << ONSTACK_KIND_*, at least one. */
ONSTACK_INTERNAL onstack_pprof_columns onstack_pprof_columns_of(uint32_t kinds);

#endif
