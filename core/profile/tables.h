/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The locations, functions and mappings to which the samples of a pprof profile refer by number. The numbers are 1, 2, ...
 * without a gap and in the order of the file, because some servers refuse a profile otherwise; 0 is none.
 * Of the locations those with an address come first (address number + 1), then the frames without one, as samples met them.
 */
#ifndef ONSTACK_PROFILE_TABLES_H
#define ONSTACK_PROFILE_TABLES_H

#include "profile/report.h"
#include "profile/store/output.h"

/* Frames without an address: one for each reason of truncation, one for reasons unknown, one for the overflow. */
#define ONSTACK_PROFILE_SPECIALS (ONSTACK_TRUNCATION_COUNT + 2)

/* Field numbers of profile.proto (profile/pprof/pprof.c). */

enum { pprof_location_id = 1, pprof_location_mapping_id = 2, pprof_location_address = 3, pprof_location_line = 4 };

enum { pprof_line_function_id = 1, pprof_line_line = 2 };

enum {
  pprof_function_id = 1,
  pprof_function_name = 2,
  pprof_function_system_name = 3,
  pprof_function_filename = 4,
  pprof_function_start_line = 5
};

typedef struct onstack_profile_table_mapping {
  uint32_t number; /* 0: no location lies in it */
  uint32_t engine; /* the string that says who generated its code; 0: not known */
  bool has_functions;
  bool has_files;
  bool has_lines;
  bool has_inlines;
} onstack_profile_table_mapping;

typedef struct onstack_profile_tables {
  onstack_profile_report *report;          /* its strings become the string table */
  onstack_profile_table_mapping *mappings; /* beside report->view.maps->items */
  uint32_t *mapping_order;                 /* the items that have a number, by number */
  uint32_t mapping_count;
  onstack_profile_strings functions;           /* encoded, without a number of their own */
  uint32_t specials[ONSTACK_PROFILE_SPECIALS]; /* the special of each place behind the addresses */
  uint32_t special_count;
  onstack_protobuf line, function; /* being made */
} onstack_profile_tables;

/* Errors: -ENOMEM (release it all the same). */
ONSTACK_INTERNAL int onstack_profile_tables_open(onstack_profile_tables *tables, onstack_profile_report *report);
ONSTACK_INTERNAL void onstack_profile_tables_release(onstack_profile_tables *tables);

/* Adds the numbers of a stack's locations, leaf first. */
ONSTACK_INTERNAL void onstack_profile_tables_add_stack(onstack_profile_tables *tables, const onstack_profile_stack *stack,
                                                       onstack_protobuf *numbers);

/* The name of the frame at a place behind the addresses. */
ONSTACK_INTERNAL const char *onstack_profile_tables_special_name(const onstack_profile_tables *tables, uint32_t place);

/* What is known of the mapping that holds an address of the report, and the mapping itself; NULL: none. */
ONSTACK_INTERNAL onstack_profile_table_mapping *onstack_profile_tables_mapping(const onstack_profile_tables *tables,
                                                                               uint64_t address,
                                                                               const onstack_profile_mapping **place);

/* The address as the process has it; 0: not known. */
ONSTACK_INTERNAL uint64_t onstack_profile_tables_real(uint64_t address);

/* Adds the lines of an address to its Location, innermost first, and notes what `mapping` (or NULL) has. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_tables_add_lines(onstack_profile_tables *tables, const onstack_profile_lines_of *answer,
                                                      onstack_profile_table_mapping *mapping, onstack_protobuf *location);
/* The one line of a frame without an address. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_tables_add_name(onstack_profile_tables *tables, const char *name,
                                                     onstack_protobuf *location);

/* The numbers of a mapping's name and build id among the strings; build_id 0: it has none. Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_tables_mapping_strings(onstack_profile_tables *tables,
                                                            const onstack_profile_mapping *mapping, uint32_t *name,
                                                            uint32_t *build_id);

/* The sample types of a written profile: which values its samples have, by the kinds that it holds. */

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
