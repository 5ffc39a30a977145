/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One OTLP message under way. It nests what pprof lists: the samples lie three messages deep, all tables in one. So both
 * are made in memory, and written at the end.
 *
 * OTLP has one value a sample, so there is a Profile for each sample type; all share the dictionary. Entry 0 of each table
 * is the one without a field, and means none.
 *
 * otlp_resource.c says whose profile it is, otlp.c all else.
 */
#ifndef ONSTACK_PROFILE_OTLP_OTLP_H
#define ONSTACK_PROFILE_OTLP_OTLP_H

#include "profile/store/output.h"
#include "profile/tables.h"

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
/* Adds a KeyValue with that value, which is emptied, as this field. `key`: UTF-8. */
ONSTACK_INTERNAL void onstack_otlp_add_key_value(onstack_otlp_writer *writer, onstack_protobuf *message, uint32_t field,
                                                 const char *key, size_t length);

/* Fills writer->resource; `process_context`: also with what this process has published. Errors: ONSTACK_E_OPTIONS. */
ONSTACK_INTERNAL int onstack_otlp_make_resource(onstack_otlp_writer *writer, bool process_context);
/* Adds the attributes of an encoded ProcessContext that the resource has not. */
ONSTACK_INTERNAL int onstack_otlp_take_context(onstack_otlp_writer *writer, const uint8_t *bytes, size_t length);

/*
 * Field numbers of OTLP's profiles signal, opentelemetry-proto 1.11.0 (collector/profiles/v1development,
 * profiles/v1development, common/v1, resource/v1): otlp_<message>_<field>. Those that are written.
 */

/* ExportProfilesServiceRequest, and ProfilesData, which has the same fields. */
enum { otlp_request_resource_profiles = 1, otlp_request_dictionary = 2 };

enum { otlp_resource_profiles_resource = 1, otlp_resource_profiles_scope_profiles = 2 };

enum { otlp_resource_attributes = 1 };

enum { otlp_scope_profiles_scope = 1, otlp_scope_profiles_profiles = 2 };

enum { otlp_scope_name = 1, otlp_scope_version = 2, otlp_scope_attributes = 3 };

enum {
  otlp_profile_sample_type = 1,
  otlp_profile_samples = 2,
  otlp_profile_time_unix_nano = 3,
  otlp_profile_duration_nano = 4,
  otlp_profile_period_type = 5,
  otlp_profile_period = 6,
  otlp_profile_attribute_indices = 11
};

enum { otlp_value_type_type = 1, otlp_value_type_unit = 2 };

enum { otlp_sample_stack = 1, otlp_sample_attribute_indices = 2, otlp_sample_link = 3, otlp_sample_values = 4 };

enum { otlp_link_trace_id = 1, otlp_link_span_id = 2 };

enum { otlp_stack_location_indices = 1 };

enum {
  otlp_dictionary_mappings = 1,
  otlp_dictionary_locations = 2,
  otlp_dictionary_functions = 3,
  otlp_dictionary_links = 4,
  otlp_dictionary_strings = 5,
  otlp_dictionary_attributes = 6,
  otlp_dictionary_stacks = 7
};

enum {
  otlp_mapping_memory_start = 1,
  otlp_mapping_memory_limit = 2,
  otlp_mapping_file_offset = 3,
  otlp_mapping_filename = 4,
  otlp_mapping_attribute_indices = 5
};

enum { otlp_location_mapping = 1, otlp_location_address = 2, otlp_location_lines = 3, otlp_location_attribute_indices = 4 };

enum { otlp_function_name = 1 };

/* KeyValueAndUnit, in the dictionary; KeyValue, elsewhere. */
enum { otlp_attribute_key = 1, otlp_attribute_value = 2 };
enum { otlp_key_value_key = 1, otlp_key_value_value = 2 };

enum { otlp_value_string = 1, otlp_value_bool = 2, otlp_value_int = 3, otlp_value_double = 4, otlp_value_array = 5 };

enum { otlp_array_values = 1 };

/* ProcessContext (processcontext/v1development), which is read. */
enum { otlp_context_resource = 1 };

#endif
