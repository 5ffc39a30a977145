/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One pprof profile under way: pprof.c writes the head and the samples, pprof_tables.c what they refer to (mappings,
 * locations, functions), strings last. The order is free in the format, so nothing is held back but the strings.
 */
#ifndef ONSTACK_PROFILE_PPROF_PPROF_WRITER_H
#define ONSTACK_PROFILE_PPROF_PPROF_WRITER_H

#include "profile/tables.h"
#include "profile/store/output.h"

/* A pair takes two NULs at least; two labels are our own. */
#define ONSTACK_PPROF_KEYS (ONSTACK_MAX_LABEL_BYTES / 2 + 2)

typedef struct onstack_pprof_writer {
  onstack_profile_report *report; /* its strings become the string table */
  onstack_profile_output *output;
  onstack_profile_columns columns;
  onstack_profile_tables tables;
  onstack_protobuf message;
  onstack_protobuf part;
  uint32_t keys[ONSTACK_PPROF_KEYS]; /* of the labels that the sample has so far */
  uint32_t key_count;
} onstack_pprof_writer;

/* Sends the message as this field of Profile and empties it. Errors: -ENOMEM, OUTPUT. */
ONSTACK_INTERNAL int onstack_pprof_send(onstack_pprof_writer *writer, uint32_t field);

/* Locations, functions and mappings; after the samples. Errors: -ENOMEM, OUTPUT. */
ONSTACK_INTERNAL int onstack_pprof_write_tables(onstack_pprof_writer *writer);

#endif
