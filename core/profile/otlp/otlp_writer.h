/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One OTLP message under way. It nests what pprof lists: the samples lie three messages deep, all tables in one. So both
 * are made in memory, and written at the end.
 *
 * OTLP has one value a sample, so there is a Profile for each sample type; all share the dictionary. Entry 0 of each table
 * is the one without a field, and means none.
 *
 * otlp.c makes the whole, otlp_samples.c Profiles and samples, otlp_attributes.c what is said of them by key and value,
 * otlp_dictionary.c the tables, otlp_resource.c whose profile it is.
 */
#ifndef ONSTACK_PROFILE_OTLP_OTLP_WRITER_H
#define ONSTACK_PROFILE_OTLP_OTLP_WRITER_H

#include "profile/tables.h"
#include "profile/store/output.h"

/* A pair of labels takes two NULs at least; two are our own. */
#define ONSTACK_OTLP_KEYS (ONSTACK_MAX_LABEL_BYTES / 2 + 2)

typedef struct onstack_otlp_writer {
  onstack_profile_report *report; /* its strings become the string table */
  const onstack_otlp_options *options;
  onstack_profile_columns columns;
  onstack_profile_tables tables;
  onstack_profile_strings attributes, links, stacks; /* encoded, by number */
  onstack_profile_strings texts;                     /* that stand in attributes: as UTF-8, not a table */
  onstack_profile_strings resource_keys;             /* of the attributes that the resource has so far */
  onstack_protobuf identities;                       /* of the samples, one behind the other: all but their values */
  size_t *identity_ends;
  size_t identity_count;
  onstack_protobuf resource, scope_profiles, dictionary;
  onstack_protobuf message, part, value, numbers; /* being made */
  uint32_t keys[ONSTACK_OTLP_KEYS];               /* of the attributes that the sample has so far */
  uint32_t key_count;
} onstack_otlp_writer;

/* The errors of all: -ENOMEM. A message that lacks memory says so at the end. */

/* Makes writer->value the AnyValue of a text. */
ONSTACK_INTERNAL int onstack_otlp_text_value(onstack_otlp_writer *writer, const char *text, size_t length);
/* The number of the attribute with this key and the AnyValue in writer->value, which is emptied. */
ONSTACK_INTERNAL int onstack_otlp_attribute(onstack_otlp_writer *writer, const char *key, uint32_t *number);
/* The same, added to a list of numbers. */
ONSTACK_INTERNAL int onstack_otlp_add_attribute(onstack_otlp_writer *writer, const char *key, onstack_protobuf *numbers);
/* Adds a KeyValue with that value, which is emptied, as this field. `key`: UTF-8. */
ONSTACK_INTERNAL void onstack_otlp_add_key_value(onstack_otlp_writer *writer, onstack_protobuf *message, uint32_t field,
                                                 const char *key, size_t length);

/* What is said of a sample: its attributes as numbers into writer->numbers, and its link; 0: none. */
ONSTACK_INTERNAL int onstack_otlp_labels(onstack_otlp_writer *writer, const onstack_profile_stack *stack, uint32_t *link);

/* Adds a Profile for each column to writer->scope_profiles, the one that is shown first. */
ONSTACK_INTERNAL int onstack_otlp_add_profiles(onstack_otlp_writer *writer);

/* Fills writer->dictionary; after all else. */
ONSTACK_INTERNAL int onstack_otlp_make_dictionary(onstack_otlp_writer *writer);

/* Fills writer->resource; `process_context`: also with what this process has published. Errors: ONSTACK_E_OPTIONS. */
ONSTACK_INTERNAL int onstack_otlp_make_resource(onstack_otlp_writer *writer, bool process_context);
/* Adds the attributes of an encoded ProcessContext that the resource has not. */
ONSTACK_INTERNAL int onstack_otlp_take_context(onstack_otlp_writer *writer, const uint8_t *bytes, size_t length);

#endif
