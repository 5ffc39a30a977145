/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/otlp/otlp_fields.h"
#include "profile/otlp/otlp_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int otlp_stack(onstack_otlp_writer *writer, const onstack_profile_stack *stack, uint32_t *number) {
  onstack_protobuf *part = &writer->part;
  onstack_profile_tables_add_stack(&writer->tables, stack, &writer->numbers);
  onstack_protobuf_add_part(part, otlp_stack_location_indices, &writer->numbers);
  if (part->failed) return -ENOMEM;
  int error = onstack_profile_strings_add_bytes(&writer->stacks, part->bytes, part->used, number);
  part->used = 0;
  return error;
}

/* What the samples of a stack have in all Profiles. */
static int otlp_add_identity(onstack_otlp_writer *writer, const onstack_profile_stack *stack) {
  onstack_protobuf *identities = &writer->identities;
  uint32_t number, link = 0;
  int error = otlp_stack(writer, stack, &number);
  if (error == 0) error = onstack_otlp_labels(writer, stack, &link);
  if (error != 0) return error;
  onstack_protobuf_add_number(identities, otlp_sample_stack, number);
  if (writer->numbers.used > 0) onstack_protobuf_add_part(identities, otlp_sample_attribute_indices, &writer->numbers);
  onstack_protobuf_add_number(identities, otlp_sample_link, link);
  if (identities->failed) return -ENOMEM;
  writer->identity_ends[writer->identity_count++] = identities->used;
  return 0;
}

static int otlp_make_identities(onstack_otlp_writer *writer) {
  const onstack_profile_view *view = &writer->report->view;
  writer->identity_ends = malloc((view->count + ONSTACK_KINDS) * sizeof(*writer->identity_ends));
  if (!writer->identity_ends) return -ENOMEM;
  int error = 0;
  for (size_t i = 0; error == 0 && i < view->count; i++) error = otlp_add_identity(writer, &view->items[i]);
  for (uint32_t i = 0; error == 0 && i < ONSTACK_KINDS; i++) {
    if (view->overflow[i].weight > 0) error = otlp_add_identity(writer, &view->overflow[i]);
  }
  return error;
}

/* Adds a Sample to the Profile in writer->message. A value of 0, where the stack's are in other Profiles, is none. */
static void otlp_add_sample(onstack_otlp_writer *writer, const onstack_profile_stack *stack, size_t identity,
                            uint32_t column) {
  const size_t start = identity == 0 ? 0 : writer->identity_ends[identity - 1];
  const uint64_t value = onstack_profile_columns_value(&writer->columns, stack, column);
  if (value == 0) return;
  onstack_protobuf_add_encoded(&writer->part, writer->identities.bytes + start, writer->identity_ends[identity] - start);
  onstack_protobuf_add_varint(&writer->numbers, value);
  onstack_protobuf_add_part(&writer->part, otlp_sample_values, &writer->numbers);
  onstack_protobuf_add_part(&writer->message, otlp_profile_samples, &writer->part);
}

static void otlp_add_samples(onstack_otlp_writer *writer, uint32_t column) {
  const onstack_profile_view *view = &writer->report->view;
  size_t identity = view->count;
  for (size_t i = 0; i < view->count; i++) otlp_add_sample(writer, &view->items[i], i, column);
  for (uint32_t i = 0; i < ONSTACK_KINDS; i++) {
    if (view->overflow[i].weight > 0) otlp_add_sample(writer, &view->overflow[i], identity++, column);
  }
}

static int otlp_add_value_type(onstack_otlp_writer *writer, uint32_t field, const char *type, const char *unit) {
  onstack_profile_strings *strings = &writer->report->symbols.strings;
  uint32_t type_number, unit_number;
  int error = onstack_profile_strings_add_text(strings, type, &type_number);
  if (error == 0) error = onstack_profile_strings_add_text(strings, unit, &unit_number);
  if (error != 0) return error;
  onstack_protobuf_add_number(&writer->part, otlp_value_type_type, type_number);
  onstack_protobuf_add_number(&writer->part, otlp_value_type_unit, unit_number);
  onstack_protobuf_add_part(&writer->message, field, &writer->part);
  return 0;
}

/* The remarks, a text each; empty lines say nothing. Leaves writer->value empty where there are none. */
static int otlp_make_comments(onstack_otlp_writer *writer) {
  int error = 0;
  for (const char *line = writer->report->comments; line && *line != '\0';) {
    const size_t length = strcspn(line, "\n");
    uint32_t number;
    error = onstack_profile_strings_add(&writer->texts, line, length, &number);
    if (error != 0) break;
    const onstack_profile_string *text = &writer->texts.items[number];
    if (number != 0) onstack_protobuf_add_bytes(&writer->part, otlp_value_string, text->text, text->length);
    if (number != 0) onstack_protobuf_add_part(&writer->numbers, otlp_array_values, &writer->part);
    line += length + (line[length] == '\n');
  }
  if (writer->numbers.used > 0) onstack_protobuf_add_part(&writer->value, otlp_value_array, &writer->numbers);
  return error;
}

/* What pprof says of a whole profile, as attributes. */
static int otlp_add_remarks(onstack_otlp_writer *writer) {
  onstack_protobuf numbers = {0};
  int error = otlp_make_comments(writer);
  if (error == 0 && writer->value.used > 0) error = onstack_otlp_add_attribute(writer, "pprof.profile.comment", &numbers);
  if (error == 0 && writer->columns.drop_frames) {
    error = onstack_otlp_text_value(writer, writer->columns.drop_frames, strlen(writer->columns.drop_frames));
    if (error == 0) error = onstack_otlp_add_attribute(writer, "pprof.profile.drop_frames", &numbers);
  }
  if (numbers.used > 0 || numbers.failed)
    onstack_protobuf_add_part(&writer->message, otlp_profile_attribute_indices, &numbers);
  onstack_protobuf_release(&numbers);
  return error;
}

static int otlp_add_profile(onstack_otlp_writer *writer, uint32_t column) {
  const onstack_profile_columns *columns = &writer->columns;
  const onstack_profile_column *type = &columns->items[column];
  onstack_protobuf *message = &writer->message;
  int error = otlp_add_value_type(writer, otlp_profile_sample_type, type->type, type->unit);
  if (error != 0) return error;
  otlp_add_samples(writer, column);
  onstack_protobuf_add_fixed(message, otlp_profile_time_unix_nano, (uint64_t)writer->report->start_unix_ns);
  onstack_protobuf_add_number(message, otlp_profile_duration_nano, (uint64_t)writer->report->duration_ns);
  error = otlp_add_value_type(writer, otlp_profile_period_type, columns->period_type, columns->items[columns->shown].unit);
  onstack_protobuf_add_number(message, otlp_profile_period, columns->period);
  if (error == 0) error = otlp_add_remarks(writer);
  onstack_protobuf_add_part(&writer->scope_profiles, otlp_scope_profiles_profiles, message);
  return error;
}

int onstack_otlp_add_profiles(onstack_otlp_writer *writer) {
  const onstack_profile_columns *columns = &writer->columns;
  int error = otlp_make_identities(writer);
  if (error == 0) error = otlp_add_profile(writer, columns->shown);
  for (uint32_t i = 0; error == 0 && i < columns->count; i++) {
    if (i != columns->shown) error = otlp_add_profile(writer, i);
  }
  return error;
}
