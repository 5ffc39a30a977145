/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/sized.h"
#include "platform/uncancelled.h"
#include "profile/otlp/otlp_fields.h"
#include "profile/otlp/otlp_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a reader needs to make the pprof profile again: which of the Profiles was which of its columns. */
static int otlp_add_scope_attributes(onstack_otlp_writer *writer, onstack_protobuf *scope) {
  static const char shown[] = "pprof.scope.default_sample_type", order[] = "pprof.scope.sample_type_order";
  const onstack_profile_columns *columns = &writer->columns;
  if (columns->says_shown) {
    const char *type = columns->items[columns->shown].type;
    int error = onstack_otlp_text_value(writer, type, strlen(type));
    if (error != 0) return error;
    onstack_otlp_add_key_value(writer, scope, otlp_scope_attributes, shown, sizeof(shown) - 1);
  }
  for (uint32_t i = 0; i < columns->count; i++) {
    const uint32_t column = i == 0 ? columns->shown : i <= columns->shown ? i - 1 : i;
    onstack_protobuf_add_chosen(&writer->part, otlp_value_int, column);
    onstack_protobuf_add_part(&writer->numbers, otlp_array_values, &writer->part);
  }
  onstack_protobuf_add_part(&writer->value, otlp_value_array, &writer->numbers);
  onstack_otlp_add_key_value(writer, scope, otlp_scope_attributes, order, sizeof(order) - 1);
  return 0;
}

static int otlp_add_scope(onstack_otlp_writer *writer) {
  onstack_protobuf *scope = &writer->message;
  onstack_protobuf_add_text(scope, otlp_scope_name, "onstack");
  onstack_protobuf_add_text(scope, otlp_scope_version, onstack_version());
  int error = otlp_add_scope_attributes(writer, scope);
  onstack_protobuf_add_part(&writer->scope_profiles, otlp_scope_profiles_scope, scope);
  return error;
}

static int otlp_make(onstack_otlp_writer *writer, bool process_context) {
  int error = onstack_profile_strings_init(&writer->attributes);
  if (error == 0) error = onstack_profile_strings_init(&writer->links);
  if (error == 0) error = onstack_profile_strings_init(&writer->stacks);
  if (error == 0) error = onstack_profile_strings_init(&writer->texts);
  if (error == 0) error = onstack_otlp_make_resource(writer, process_context);
  if (error == 0) error = otlp_add_scope(writer);
  if (error == 0) error = onstack_otlp_add_profiles(writer);
  if (error == 0) error = onstack_otlp_make_dictionary(writer);
  if (error == 0 && (writer->resource.failed || writer->scope_profiles.failed || writer->dictionary.failed)) return -ENOMEM;
  return error;
}

/* The parts without one more copy of them: ResourceProfiles is as long as its fields. */
static int otlp_send(onstack_otlp_writer *writer, onstack_profile_output *output) {
  onstack_protobuf *head = &writer->message;
  onstack_protobuf *resource = &writer->part, *scope = &writer->value, *samples = &writer->scope_profiles;
  onstack_protobuf_add_part(resource, otlp_resource_profiles_resource, &writer->resource);
  onstack_protobuf_add_head(scope, otlp_resource_profiles_scope_profiles, samples->used);
  onstack_protobuf_add_head(head, otlp_request_resource_profiles, resource->used + scope->used + samples->used);
  onstack_protobuf_add_encoded(head, resource->bytes, resource->used);
  onstack_protobuf_add_encoded(head, scope->bytes, scope->used);
  onstack_protobuf_add_head(&writer->numbers, otlp_request_dictionary, writer->dictionary.used);
  if (resource->failed || scope->failed || head->failed || writer->numbers.failed) return -ENOMEM;
  onstack_profile_output_put(output, head->bytes, head->used);
  onstack_profile_output_put(output, samples->bytes, samples->used);
  onstack_profile_output_put(output, writer->numbers.bytes, writer->numbers.used);
  return onstack_profile_output_put(output, writer->dictionary.bytes, writer->dictionary.used);
}

static void otlp_release(onstack_otlp_writer *writer) {
  onstack_protobuf *messages[] = {&writer->identities, &writer->resource, &writer->scope_profiles, &writer->dictionary,
                                  &writer->message,    &writer->part,     &writer->value,          &writer->numbers};
  for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) onstack_protobuf_release(messages[i]);
  onstack_profile_strings_release(&writer->attributes);
  onstack_profile_strings_release(&writer->links);
  onstack_profile_strings_release(&writer->stacks);
  onstack_profile_strings_release(&writer->texts);
  onstack_profile_strings_release(&writer->resource_keys);
  onstack_profile_tables_release(&writer->tables);
  free(writer->identity_ends);
}

static int otlp_write_all(onstack_profile_report *report, const onstack_otlp_options *options, bool process_context,
                          onstack_profile_output *output) {
  static const onstack_profile_table_fields fields = {.location_line = otlp_location_lines,
                                                      .function_name = otlp_function_name};
  onstack_otlp_writer writer = {.report = report, .options = options, .columns = onstack_profile_columns_of(report)};
  int error = onstack_profile_tables_open(&writer.tables, report, &fields);
  if (error == 0) error = otlp_make(&writer, process_context);
  if (error == 0) error = otlp_send(&writer, output);
  otlp_release(&writer);
  return error;
}

static int otlp_read_options(const onstack_otlp_options *given, onstack_otlp_options *options, bool *process_context) {
  *options = (onstack_otlp_options){0};
  int error = given ? onstack_sized_copy(options, sizeof(*options), 0, given) : 0;
  if (error == 0 && options->resource_count > 0 && !options->resource) error = ONSTACK_E_OPTIONS;
  for (size_t i = 0; error == 0 && i < sizeof(options->reserved); i++) {
    if (options->reserved[i] != 0) error = ONSTACK_E_OPTIONS;
  }
  return error != 0 ? error : onstack_switch_read(options->process_context, process_context);
}

ONSTACK_API int onstack_profile_write_otlp(onstack_profile *profile, const onstack_write_options *options,
                                           const onstack_otlp_options *otlp, onstack_writer writer, void *writer_data) {
  ONSTACK_UNCANCELLED;
  onstack_otlp_options known;
  onstack_profile_report report;
  onstack_profile_output output;
  bool process_context;
  int error = writer ? otlp_read_options(otlp, &known, &process_context) : ONSTACK_E_OPTIONS;
  if (error == 0) error = onstack_profile_report_open(&report, profile, options, false);
  if (error != 0) return error;
  error = onstack_profile_output_open(&output, writer, writer_data);
  if (error == 0) error = onstack_profile_output_close(&output, otlp_write_all(&report, &known, process_context, &output));
  onstack_profile_report_close(&report);
  return error;
}
