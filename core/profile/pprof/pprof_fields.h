/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Field numbers of profile.proto (github.com/google/pprof/proto): pprof_<message>_<field>. Those that are written. */
#ifndef ONSTACK_PROFILE_PPROF_PPROF_FIELDS_H
#define ONSTACK_PROFILE_PPROF_PPROF_FIELDS_H

enum {
  pprof_profile_sample_type = 1,
  pprof_profile_sample = 2,
  pprof_profile_mapping = 3,
  pprof_profile_location = 4,
  pprof_profile_function = 5,
  pprof_profile_string_table = 6,
  pprof_profile_drop_frames = 7,
  pprof_profile_time_nanos = 9,
  pprof_profile_duration_nanos = 10,
  pprof_profile_period_type = 11,
  pprof_profile_period = 12,
  pprof_profile_comment = 13,
  pprof_profile_default_sample_type = 14
};

enum { pprof_value_type_type = 1, pprof_value_type_unit = 2 };

enum { pprof_sample_location_id = 1, pprof_sample_value = 2, pprof_sample_label = 3 }; /* and ONSTACK_PPROF_SAMPLE_TIMES */

enum { pprof_label_key = 1, pprof_label_str = 2, pprof_label_num = 3 };

enum {
  pprof_mapping_id = 1,
  pprof_mapping_memory_start = 2,
  pprof_mapping_memory_limit = 3,
  pprof_mapping_file_offset = 4,
  pprof_mapping_filename = 5,
  pprof_mapping_build_id = 6,
  pprof_mapping_has_functions = 7,
  pprof_mapping_has_filenames = 8,
  pprof_mapping_has_line_numbers = 9,
  pprof_mapping_has_inline_frames = 10
};

enum { pprof_location_id = 1, pprof_location_mapping_id = 2, pprof_location_address = 3, pprof_location_line = 4 };

enum { pprof_line_function_id = 1, pprof_line_line = 2 };

enum {
  pprof_function_id = 1,
  pprof_function_name = 2,
  pprof_function_system_name = 3,
  pprof_function_filename = 4,
  pprof_function_start_line = 5
};

#endif
