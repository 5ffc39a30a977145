/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One pprof profile under way: the head and the samples, then what they refer to (mappings, locations, functions), strings
 * last. The order is free in the format, so nothing is held back but the strings.
 */
#include "platform/calls.h"
#include "profile/store/output.h"
#include "profile/tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Field numbers of profile.proto (github.com/google/pprof/proto): pprof_<message>_<field>. Those that are written;
   Location, Line and Function are in profile/tables.h. */

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
static int pprof_send(onstack_pprof_writer *writer, uint32_t field) {
  if (writer->message.failed) return -ENOMEM;
  onstack_protobuf_add_part(&writer->part, field, &writer->message);
  if (writer->part.failed) return -ENOMEM;
  int error = onstack_profile_output_put(writer->output, writer->part.bytes, writer->part.used);
  writer->part.used = 0;
  return error;
}

static int pprof_write_location(onstack_pprof_writer *writer, uint32_t number) {
  const onstack_symbol_table *symbols = &writer->report->symbols;
  const onstack_profile_mapping *place;
  onstack_profile_table_mapping *mapping =
      onstack_profile_tables_mapping(&writer->tables, symbols->addresses[number], &place);
  onstack_protobuf_add_number(&writer->message, pprof_location_id, (uint64_t)number + 1);
  if (mapping) onstack_protobuf_add_number(&writer->message, pprof_location_mapping_id, mapping->number);
  onstack_protobuf_add_number(&writer->message, pprof_location_address,
                              onstack_profile_tables_real(symbols->addresses[number]));
  int error = onstack_profile_tables_add_lines(&writer->tables, &symbols->lines_of[number], mapping, &writer->message);
  return error != 0 ? error : pprof_send(writer, pprof_profile_location);
}

static int pprof_write_special(onstack_pprof_writer *writer, uint32_t place) {
  const char *name = onstack_profile_tables_special_name(&writer->tables, place);
  onstack_protobuf_add_number(&writer->message, pprof_location_id, (uint64_t)writer->report->symbols.count + 1 + place);
  int error = onstack_profile_tables_add_name(&writer->tables, name, &writer->message);
  return error != 0 ? error : pprof_send(writer, pprof_profile_location);
}

static int pprof_write_functions(onstack_pprof_writer *writer) {
  const onstack_profile_strings *functions = &writer->tables.functions;
  int error = 0;
  for (size_t i = 1; error == 0 && i < functions->count; i++) {
    onstack_protobuf_add_number(&writer->message, pprof_function_id, i);
    onstack_protobuf_add_encoded(&writer->message, functions->items[i].text, functions->items[i].length);
    error = pprof_send(writer, pprof_profile_function);
  }
  return error;
}

static int pprof_write_mapping(onstack_pprof_writer *writer, uint32_t item) {
  const onstack_profile_mapping *mapping = &writer->report->view.maps->items[item];
  const onstack_profile_table_mapping *known = &writer->tables.mappings[item];
  onstack_protobuf *message = &writer->message;
  uint32_t path, build_id;
  int error = onstack_profile_tables_mapping_strings(&writer->tables, mapping, &path, &build_id);
  if (error != 0) return error;
  onstack_protobuf_add_number(message, pprof_mapping_id, known->number);
  onstack_protobuf_add_number(message, pprof_mapping_memory_start, mapping->start);
  onstack_protobuf_add_number(message, pprof_mapping_memory_limit, mapping->limit);
  onstack_protobuf_add_number(message, pprof_mapping_file_offset, mapping->offset);
  onstack_protobuf_add_number(message, pprof_mapping_filename, path);
  onstack_protobuf_add_number(message, pprof_mapping_build_id, build_id);
  onstack_protobuf_add_number(message, pprof_mapping_has_functions, known->has_functions);
  onstack_protobuf_add_number(message, pprof_mapping_has_filenames, known->has_files);
  onstack_protobuf_add_number(message, pprof_mapping_has_line_numbers, known->has_lines);
  onstack_protobuf_add_number(message, pprof_mapping_has_inline_frames, known->has_inlines);
  return pprof_send(writer, pprof_profile_mapping);
}

/* Locations, functions and mappings; after the samples. Errors: -ENOMEM, OUTPUT. */
static int pprof_write_tables(onstack_pprof_writer *writer) {
  int error = 0;
  for (size_t i = 0; error == 0 && i < writer->report->symbols.count; i++) {
    error = pprof_write_location(writer, (uint32_t)i);
  }
  for (uint32_t i = 0; error == 0 && i < writer->tables.special_count; i++) error = pprof_write_special(writer, i);
  if (error == 0) error = pprof_write_functions(writer);
  for (uint32_t i = 0; error == 0 && i < writer->tables.mapping_count; i++) {
    error = pprof_write_mapping(writer, writer->tables.mapping_order[i]);
  }
  return error;
}

static int pprof_write_value_type(onstack_pprof_writer *writer, uint32_t field, const onstack_profile_column *column) {
  uint32_t type_number, unit_number;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, column->type, &type_number);
  if (error == 0) error = onstack_profile_strings_add_text(&writer->report->symbols.strings, column->unit, &unit_number);
  if (error != 0) return error;
  onstack_protobuf_add_number(&writer->message, pprof_value_type_type, type_number);
  onstack_protobuf_add_number(&writer->message, pprof_value_type_unit, unit_number);
  return pprof_send(writer, field);
}

static int pprof_add_default_type(onstack_pprof_writer *writer, const onstack_profile_column *column) {
  uint32_t number;
  if (!writer->columns.says_shown) return 0;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, column->type, &number);
  if (error == 0) onstack_protobuf_add_number(&writer->part, pprof_profile_default_sample_type, number);
  return error;
}

static int pprof_add_drop_frames(onstack_pprof_writer *writer) {
  uint32_t number;
  if (!writer->columns.drop_frames) return 0;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, writer->columns.drop_frames, &number);
  if (error == 0) onstack_protobuf_add_number(&writer->part, pprof_profile_drop_frames, number);
  return error;
}

static int pprof_write_head(onstack_pprof_writer *writer) {
  const onstack_profile_report *report = writer->report;
  const onstack_profile_columns *columns = &writer->columns;
  const onstack_profile_column *first = &columns->items[columns->shown];
  const onstack_profile_column period = {columns->period_type, first->unit};
  int error = 0;
  for (uint32_t i = 0; error == 0 && i < columns->count; i++)
    error = pprof_write_value_type(writer, pprof_profile_sample_type, &columns->items[i]);
  if (error == 0) error = pprof_write_value_type(writer, pprof_profile_period_type, &period);
  if (error == 0) error = pprof_add_drop_frames(writer);
  if (error == 0) error = pprof_add_default_type(writer, first);
  if (error != 0) return error;
  onstack_protobuf *part = &writer->part;
  onstack_protobuf_add_number(part, pprof_profile_time_nanos, (uint64_t)report->start_unix_ns);
  onstack_protobuf_add_number(part, pprof_profile_duration_nanos, (uint64_t)report->duration_ns);
  onstack_protobuf_add_number(part, pprof_profile_period, columns->period);
  if (part->failed) return -ENOMEM;
  error = onstack_profile_output_put(writer->output, part->bytes, part->used);
  part->used = 0;
  return error;
}

/* Whether the sample has this key already. Keys that were no text may have become the same: numbers are compared. */
static bool pprof_has_key(onstack_pprof_writer *writer, uint32_t key) {
  for (uint32_t i = 0; i < writer->key_count; i++) {
    if (writer->keys[i] == key) return true;
  }
  writer->keys[writer->key_count++] = key;
  return false;
}

/* Servers refuse the whole profile for a label without a key, and for two with one key: Go's labels may be either. */
static int pprof_add_label(onstack_pprof_writer *writer, const char *key, const char *text, int64_t number) {
  onstack_profile_strings *strings = &writer->report->symbols.strings;
  uint32_t key_number, text_number;
  int error = onstack_profile_strings_add_text(strings, key, &key_number);
  if (error != 0 || key_number == 0 || pprof_has_key(writer, key_number)) return error;
  error = onstack_profile_strings_add_text(strings, text, &text_number);
  if (error != 0) return error;
  onstack_protobuf_add_number(&writer->part, pprof_label_key, key_number);
  onstack_protobuf_add_number(&writer->part, pprof_label_str, text_number);
  onstack_protobuf_add_number(&writer->part, pprof_label_num, (uint64_t)number);
  onstack_protobuf_add_part(&writer->message, pprof_sample_label, &writer->part);
  return 0;
}

/* The sink has seen to it that there are pairs, and that each string ends. */
static int pprof_add_labels(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  int error = 0;
  for (uint32_t at = 0; error == 0 && at < stack->head->label_bytes;) {
    const char *key = stack->head->labels + at, *value = key + strlen(key) + 1;
    error = pprof_add_label(writer, key, value, 0);
    at = (uint32_t)(value + strlen(value) + 1 - stack->head->labels);
  }
  return error;
}

/* In the columns of its kind; 0 in the others. */
static void pprof_add_values(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  const onstack_profile_columns *columns = &writer->columns;
  for (uint32_t i = 0; i < columns->count; i++) {
    onstack_protobuf_add_varint(&writer->part, onstack_profile_columns_value(columns, stack, i));
  }
  onstack_protobuf_add_part(&writer->message, pprof_sample_value, &writer->part);
}

/* The sample that has been put together, and behind its other fields its times. */
static int pprof_send_sample(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  const onstack_profile_report *report = writer->report;
  if (stack->times.bytes == 0) return pprof_send(writer, pprof_profile_sample);
  const int64_t shift_us = (int64_t)((uint64_t)report->view.start_unix_ns - (uint64_t)report->start_unix_ns) / 1000;
  onstack_protobuf *message = &writer->message, *part = &writer->part;
  onstack_protobuf_add_head(part, pprof_profile_sample,
                            message->used + onstack_profile_times_length(&stack->times, shift_us));
  onstack_protobuf_add_encoded(part, message->bytes, message->used);
  int error =
      message->failed || part->failed ? -ENOMEM : onstack_profile_output_put(writer->output, part->bytes, part->used);
  message->used = 0;
  part->used = 0;
  return error != 0 ? error : onstack_profile_times_write(&stack->times, shift_us, writer->output);
}

static int pprof_write_sample(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  onstack_profile_tables_add_stack(&writer->tables, stack, &writer->part);
  onstack_protobuf_add_part(&writer->message, pprof_sample_location_id, &writer->part);
  pprof_add_values(writer, stack);
  int error = 0;
  writer->key_count = 0;
  if (stack->head->thread_name[0] != '\0') error = pprof_add_label(writer, "thread", stack->head->thread_name, 0);
  if (error == 0 && stack->head->tid != 0) error = pprof_add_label(writer, "thread_id", NULL, stack->head->tid);
  if (error == 0) error = pprof_add_labels(writer, stack);
  return error != 0 ? error : pprof_send_sample(writer, stack);
}

static int pprof_write_samples(onstack_pprof_writer *writer) {
  const onstack_profile_view *view = &writer->report->view;
  int error = 0;
  for (size_t i = 0; error == 0 && i < view->count; i++) error = pprof_write_sample(writer, &view->items[i]);
  for (uint32_t i = 0; error == 0 && i < ONSTACK_KINDS; i++) {
    if (view->overflow[i].weight > 0) error = pprof_write_sample(writer, &view->overflow[i]);
  }
  return error;
}

static int pprof_add_comment(onstack_pprof_writer *writer, const char *line, size_t length) {
  uint32_t number;
  int error = onstack_profile_strings_add(&writer->report->symbols.strings, line, length, &number);
  if (error == 0) onstack_protobuf_add_number(&writer->part, pprof_profile_comment, number);
  return error;
}

/* A line each; empty ones say nothing. */
static int pprof_write_comments(onstack_pprof_writer *writer) {
  const char *line = writer->report->comments;
  int error = 0;
  while (error == 0 && line && *line != '\0') {
    size_t length = strcspn(line, "\n");
    error = pprof_add_comment(writer, line, length);
    line += length + (line[length] == '\n');
  }
  const onstack_profile_report *report = writer->report;
  char text[96];
  const onstack_symbol_table *symbols = &report->symbols;
  if (error == 0 && symbols->replaced > 0) {
    const int length = snprintf(text, sizeof(text), "onstack.generated replaced=%zu", symbols->replaced);
    error = pprof_add_comment(writer, text, (size_t)length);
  }
  if (error == 0 && report->view.times_kept + report->view.times_lost > 0) {
    const int length = snprintf(text, sizeof(text), "onstack.timeline kept=%" PRIu64 " lost=%" PRIu64,
                                report->view.times_kept, report->view.times_lost);
    error = pprof_add_comment(writer, text, (size_t)length);
  }
  if (error == 0 && writer->part.failed) error = -ENOMEM;
  if (error == 0 && writer->part.used > 0) {
    error = onstack_profile_output_put(writer->output, writer->part.bytes, writer->part.used);
  }
  writer->part.used = 0;
  return error;
}

static int pprof_write_strings(onstack_pprof_writer *writer) {
  const onstack_profile_strings *strings = &writer->report->symbols.strings;
  int error = 0;
  for (size_t i = 0; error == 0 && i < strings->count; i++) {
    onstack_protobuf_add_bytes(&writer->part, pprof_profile_string_table, strings->items[i].text, strings->items[i].length);
    if (writer->part.failed) return -ENOMEM;
    error = onstack_profile_output_put(writer->output, writer->part.bytes, writer->part.used);
    writer->part.used = 0;
  }
  return error;
}

static int pprof_write_all(onstack_profile_report *report, onstack_profile_output *output) {
  onstack_pprof_writer writer = {.report = report, .output = output, .columns = onstack_profile_columns_of(report)};
  int error = onstack_profile_tables_open(&writer.tables, report);
  if (error == 0) error = pprof_write_head(&writer);
  if (error == 0) error = pprof_write_samples(&writer);
  if (error == 0) error = pprof_write_tables(&writer);
  if (error == 0) error = pprof_write_comments(&writer);
  if (error == 0) error = pprof_write_strings(&writer);
  onstack_protobuf_release(&writer.message);
  onstack_protobuf_release(&writer.part);
  onstack_profile_tables_release(&writer.tables);
  return error;
}

ONSTACK_API int onstack_profile_write_pprof(onstack_profile *profile, const onstack_write_options *options,
                                            onstack_writer writer, void *writer_data) {
  ONSTACK_UNCANCELLED;
  onstack_profile_report report;
  onstack_profile_output output;
  if (!writer) return ONSTACK_E_OPTIONS;
  int error = onstack_profile_report_open(&report, profile, options, false);
  if (error != 0) return error;
  error = onstack_profile_output_open(&output, writer, writer_data);
  if (error == 0) error = onstack_profile_output_close(&output, pprof_write_all(&report, &output));
  onstack_profile_report_close(&report);
  return error;
}
