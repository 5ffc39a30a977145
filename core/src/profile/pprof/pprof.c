/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/pprof/pprof_writer.h"

#include "profile/pprof/pprof_fields.h"
#include "profile/truncation.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>

/* Sessions that share a profile may have periods of their own. */
#define ONSTACK_PPROF_PERIODS 8u

int onstack_pprof_send(onstack_pprof_writer *writer, uint32_t field) {
  if (writer->message.failed) return -ENOMEM;
  onstack_pprof_add_part(&writer->part, field, &writer->message);
  if (writer->part.failed) return -ENOMEM;
  int error = onstack_profile_output_put(writer->output, writer->part.bytes, writer->part.used);
  writer->part.used = 0;
  return error;
}

static int pprof_write_value_type(onstack_pprof_writer *writer, uint32_t field, const onstack_pprof_column *column) {
  uint32_t type_number, unit_number;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, column->type, &type_number);
  if (error == 0) error = onstack_profile_strings_add_text(&writer->report->symbols.strings, column->unit, &unit_number);
  if (error != 0) return error;
  onstack_pprof_add_number(&writer->message, pprof_value_type_type, type_number);
  onstack_pprof_add_number(&writer->message, pprof_value_type_unit, unit_number);
  return onstack_pprof_send(writer, field);
}

/* The period of a kind under which most of it was sampled; the samples' values are exact in any case. */
static uint64_t pprof_main_period(const onstack_profile_view *view, onstack_kind kind) {
  uint64_t periods[ONSTACK_PPROF_PERIODS] = {0}, values[ONSTACK_PPROF_PERIODS] = {0};
  size_t known = 0, best = 0;
  for (size_t i = 0; i < view->count; i++) {
    size_t at = 0;
    if (view->items[i].kind != kind) continue;
    while (at < known && periods[at] != view->items[i].period) at++;
    if (at == ONSTACK_PPROF_PERIODS) continue;
    if (at == known) periods[known++] = view->items[i].period;
    values[at] += view->items[i].value;
    if (values[at] > values[best]) best = at;
  }
  return periods[best];
}

/* Of several kinds, and of allocations, the last would be shown by default; of the latter that is right, and is said as Go says it. */
static int pprof_add_default_type(onstack_pprof_writer *writer, const onstack_pprof_column *column) {
  const uint32_t kinds = writer->report->view.kinds;
  uint32_t number;
  if (!(kinds & (kinds - 1)) && writer->columns.first != ONSTACK_KIND_ALLOCATION) return 0;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, column->type, &number);
  if (error == 0) onstack_pprof_add_number(&writer->part, pprof_profile_default_sample_type, number);
  return error;
}

/*
 * The functions of allocators, a regular expression in Go's syntax: readers leave them and what they call out, so that a
 * table's first column names who asked for the memory. The frames are in the profile.
 */
static const char pprof_allocators[] =
    "(malloc|calloc|realloc|reallocarray|free|posix_memalign|aligned_alloc|memalign|p?valloc"
    "|operator new(\\[\\])?|onstack_heap_.*|onstack::heap::.*"
    "|<onstack::heap::.*|(__rustc::)?__rust_.*alloc.*|<?alloc::(alloc|raw_vec)::.*)";

static int pprof_add_drop_frames(onstack_pprof_writer *writer) {
  uint32_t number;
  if (writer->columns.first != ONSTACK_KIND_ALLOCATION) return 0;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, pprof_allocators, &number);
  if (error == 0) onstack_pprof_add_number(&writer->part, pprof_profile_drop_frames, number);
  return error;
}

static int pprof_write_head(onstack_pprof_writer *writer) {
  const onstack_profile_report *report = writer->report;
  const onstack_pprof_columns *columns = &writer->columns;
  const onstack_pprof_column *first = &columns->items[columns->shown];
  const onstack_pprof_column period = {columns->period_type, first->unit};
  int error = 0;
  for (uint32_t i = 0; error == 0 && i < columns->count; i++)
    error = pprof_write_value_type(writer, pprof_profile_sample_type, &columns->items[i]);
  if (error == 0) error = pprof_write_value_type(writer, pprof_profile_period_type, &period);
  if (error == 0) error = pprof_add_drop_frames(writer);
  if (error == 0) error = pprof_add_default_type(writer, first);
  if (error != 0) return error;
  onstack_pprof_message *part = &writer->part;
  onstack_pprof_add_number(part, pprof_profile_time_nanos, (uint64_t)report->start_unix_ns);
  onstack_pprof_add_number(part, pprof_profile_duration_nanos, (uint64_t)report->duration_ns);
  onstack_pprof_add_number(part, pprof_profile_period,
                           report->view.count > 0 ? pprof_main_period(&report->view, columns->first) : report->period_ns);
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
  onstack_pprof_add_number(&writer->part, pprof_label_key, key_number);
  onstack_pprof_add_number(&writer->part, pprof_label_str, text_number);
  onstack_pprof_add_number(&writer->part, pprof_label_num, (uint64_t)number);
  onstack_pprof_add_part(&writer->message, pprof_sample_label, &writer->part);
  return 0;
}

static void pprof_add_locations(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  for (uint32_t i = 0; i < stack->frame_count; i++) {
    uint32_t number = onstack_profile_symbols_number(&writer->report->symbols, stack->frames[i]);
    onstack_pprof_add_varint(&writer->part, (uint64_t)number + 1);
  }
  if (stack->frame_count == 0) {
    onstack_pprof_add_varint(&writer->part, onstack_pprof_special(writer, ONSTACK_PPROF_SPECIAL_OVERFLOW));
  } else if (onstack_profile_truncation_frame(stack->truncation)) {
    uint32_t reason = stack->truncation < ONSTACK_TRUNCATION_COUNT ? stack->truncation : ONSTACK_TRUNCATION_COUNT;
    onstack_pprof_add_varint(&writer->part, onstack_pprof_special(writer, reason));
  }
  onstack_pprof_add_part(&writer->message, pprof_sample_location_id, &writer->part);
}

/* The sink has seen to it that there are pairs, and that each string ends. */
static int pprof_add_labels(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  int error = 0;
  for (uint32_t at = 0; error == 0 && at < stack->label_bytes;) {
    const char *key = stack->labels + at, *value = key + strlen(key) + 1;
    error = pprof_add_label(writer, key, value, 0);
    at = (uint32_t)(value + strlen(value) + 1 - stack->labels);
  }
  return error;
}

/* Ticks, not samples: as in Go's own profiles, the count times the period is the time. */
static uint64_t pprof_value(const onstack_pprof_columns *columns, const onstack_profile_stack *stack, uint32_t column) {
  if (column == columns->value[stack->kind]) return stack->value;
  if (column == columns->weight[stack->kind]) return stack->weight;
  if (column == columns->held_weight) return stack->held_weight; /* 0 but for allocations */
  return column == columns->held_value ? stack->held_value : 0;
}

/* In the columns of its kind; 0 in the others. */
static void pprof_add_values(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  const onstack_pprof_columns *columns = &writer->columns;
  for (uint32_t i = 0; i < columns->count; i++) {
    onstack_pprof_add_varint(&writer->part, pprof_value(columns, stack, i));
  }
  onstack_pprof_add_part(&writer->message, pprof_sample_value, &writer->part);
}

static int pprof_write_sample(onstack_pprof_writer *writer, const onstack_profile_stack *stack) {
  pprof_add_locations(writer, stack);
  pprof_add_values(writer, stack);
  int error = 0;
  writer->key_count = 0;
  if (stack->thread_name[0] != '\0') error = pprof_add_label(writer, "thread", stack->thread_name, 0);
  if (error == 0 && stack->tid != 0) error = pprof_add_label(writer, "thread_id", NULL, stack->tid);
  if (error == 0) error = pprof_add_labels(writer, stack);
  return error != 0 ? error : onstack_pprof_send(writer, pprof_profile_sample);
}

static int pprof_write_samples(onstack_pprof_writer *writer) {
  const onstack_profile_view *view = &writer->report->view;
  int error = 0;
  for (size_t i = 0; error == 0 && i < view->count; i++) error = pprof_write_sample(writer, &view->items[i]);
  for (uint32_t i = 0; error == 0 && i < ONSTACK_KINDS; i++) {
    if (view->overflow[i].samples > 0) error = pprof_write_sample(writer, &view->overflow[i]);
  }
  return error;
}

/* A line each; empty ones say nothing. */
static int pprof_write_comments(onstack_pprof_writer *writer) {
  const char *line = writer->report->comments;
  int error = 0;
  while (error == 0 && line && *line != '\0') {
    size_t length = strcspn(line, "\n");
    uint32_t number;
    error = onstack_profile_strings_add(&writer->report->symbols.strings, line, length, &number);
    if (error == 0) onstack_pprof_add_number(&writer->part, pprof_profile_comment, number);
    line += length + (line[length] == '\n');
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
    onstack_pprof_add_bytes(&writer->part, pprof_profile_string_table, strings->items[i].text, strings->items[i].length);
    if (writer->part.failed) return -ENOMEM;
    error = onstack_profile_output_put(writer->output, writer->part.bytes, writer->part.used);
    writer->part.used = 0;
  }
  return error;
}

static int pprof_write_all(onstack_profile_report *report, onstack_profile_output *output) {
  onstack_pprof_writer writer = {.report = report, .output = output};
  const onstack_kind empty = report->kind != 0 ? report->kind : ONSTACK_KIND_CPU;
  writer.columns = onstack_pprof_columns_of(report->view.kinds != 0 ? report->view.kinds : 1u << empty);
  int error = pprof_write_head(&writer);
  if (error == 0) error = pprof_write_samples(&writer);
  if (error == 0) error = onstack_pprof_write_tables(&writer);
  if (error == 0) error = pprof_write_comments(&writer);
  if (error == 0) error = pprof_write_strings(&writer);
  onstack_pprof_message_release(&writer.message);
  onstack_pprof_message_release(&writer.part);
  onstack_profile_hash_release(&writer.function_index);
  free(writer.functions);
  free(writer.mappings);
  return error;
}

ONSTACK_API int onstack_profile_write_pprof(onstack_profile *profile, const onstack_write_options *options,
                                            onstack_writer writer, void *writer_data) {
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
