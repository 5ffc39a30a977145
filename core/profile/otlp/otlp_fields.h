/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Field numbers of OTLP's profiles signal, opentelemetry-proto 1.11.0 (collector/profiles/v1development,
 * profiles/v1development, common/v1, resource/v1): otlp_<message>_<field>. Those that are written.
 */
#ifndef ONSTACK_PROFILE_OTLP_OTLP_FIELDS_H
#define ONSTACK_PROFILE_OTLP_OTLP_FIELDS_H

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
