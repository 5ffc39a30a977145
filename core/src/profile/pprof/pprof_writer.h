/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One pprof profile under way: pprof.c writes the head and the samples, pprof_tables.c what they refer to (mappings,
 * locations, functions), strings last. The order is free in the format, so nothing is held back but the strings.
 *
 * Numbers of each kind are 1, 2, ... without a gap and in the order of the file: some servers refuse a profile otherwise.
 * Of the locations those with an address come first (address number + 1), then the frames without one, as samples met
 * them (onstack_pprof_special).
 */
#ifndef ONSTACK_PROFILE_PPROF_PPROF_WRITER_H
#define ONSTACK_PROFILE_PPROF_PPROF_WRITER_H

#include "profile/output.h"
#include "profile/pprof/pprof_columns.h"
#include "profile/pprof/pprof_message.h"
#include "profile/report.h"

/* Frames without an address: one for each reason of truncation, one for reasons unknown, one for the overflow. */
#define ONSTACK_PPROF_SPECIAL_OVERFLOW (ONSTACK_TRUNCATION_COUNT + 1)
#define ONSTACK_PPROF_SPECIALS (ONSTACK_TRUNCATION_COUNT + 2)

typedef struct onstack_pprof_function {
  uint32_t name;
  uint32_t system_name;
  uint32_t file;
  int64_t start_line;
} onstack_pprof_function;

typedef struct onstack_pprof_mapping {
  uint32_t number; /* 0: no location lies in it */
  bool has_functions;
  bool has_files;
  bool has_lines;
  bool has_inlines;
} onstack_pprof_mapping;

/* A pair takes two NULs at least; two labels are our own. */
#define ONSTACK_PPROF_KEYS (ONSTACK_MAX_LABEL_BYTES / 2 + 2)

typedef struct onstack_pprof_writer {
  onstack_profile_report *report; /* its strings become the string table */
  onstack_profile_output *output;
  onstack_pprof_columns columns;
  onstack_pprof_message message;
  onstack_pprof_message part;
  onstack_pprof_mapping *mappings; /* beside report->view.maps->items */
  onstack_pprof_function *functions;
  size_t function_count;
  size_t function_capacity;
  onstack_profile_hash_index function_index;
  uint32_t specials[ONSTACK_PPROF_SPECIALS]; /* the special of each place behind the addresses */
  uint32_t special_count;
  uint32_t keys[ONSTACK_PPROF_KEYS]; /* of the labels that the sample has so far */
  uint32_t key_count;
} onstack_pprof_writer;

/* The number of the location that stands for a frame without an address, new or known. */
ONSTACK_INTERNAL uint64_t onstack_pprof_special(onstack_pprof_writer *writer, uint32_t special);

/* Sends the message as this field of Profile and empties it. Errors: -ENOMEM, OUTPUT. */
ONSTACK_INTERNAL int onstack_pprof_send(onstack_pprof_writer *writer, uint32_t field);

/* Locations, functions and mappings; after the samples. Errors: -ENOMEM, OUTPUT. */
ONSTACK_INTERNAL int onstack_pprof_write_tables(onstack_pprof_writer *writer);

#endif
