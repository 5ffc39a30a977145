/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sample types of a written profile: which values its samples have, by the kinds that it holds. */
#ifndef ONSTACK_PROFILE_COLUMNS_H
#define ONSTACK_PROFILE_COLUMNS_H

#include "profile/report.h"

/* Each kind has its value, and most have a count; allocations have both also of what is in use. */
#define ONSTACK_PROFILE_COLUMNS (2 * ONSTACK_KINDS)
#define ONSTACK_PROFILE_NO_COLUMN UINT8_MAX

typedef struct onstack_profile_column {
  const char *type;
  const char *unit;
} onstack_profile_column;

typedef struct onstack_profile_columns {
  onstack_profile_column items[ONSTACK_PROFILE_COLUMNS];
  uint32_t count;
  onstack_kind first;              /* whose value is shown first, and whose period the profile has */
  uint8_t weight[ONSTACK_KINDS];   /* the column of a kind's weight; ONSTACK_PROFILE_NO_COLUMN: none */
  uint8_t value[ONSTACK_KINDS];    /* of its value */
  uint8_t held_weight, held_value; /* of what is in use; ONSTACK_PROFILE_NO_COLUMN: no allocations */
  uint8_t shown;                   /* by default */
  bool says_shown;                 /* readers would not choose it by themselves */
  const char *drop_frames;         /* the functions that readers leave out, with what they call; NULL: none */
  const char *period_type;
  uint64_t period;
} onstack_profile_columns;

ONSTACK_INTERNAL onstack_profile_columns onstack_profile_columns_of(const onstack_profile_report *report);

/* A stack's value in a column; 0 in those of other kinds. */
ONSTACK_INTERNAL uint64_t onstack_profile_columns_value(const onstack_profile_columns *columns,
                                                        const onstack_profile_stack *stack, uint32_t column);

#endif
