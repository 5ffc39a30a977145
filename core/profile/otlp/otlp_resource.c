/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/otlp/otlp_fields.h"
#include "profile/otlp/otlp_writer.h"
#include "profile/otlp/process_context.h"
#include "profile/store/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds the attribute whose value lies in writer->value, and takes note of its key. Of two with one key the first stands. */
static int otlp_add_resource(onstack_otlp_writer *writer, const char *key, size_t length) {
  const size_t known = writer->resource_keys.count;
  uint32_t number;
  if (writer->value.used == 0) return 0; /* of a kind that is left out: another may have the key */
  int error = onstack_profile_strings_add(&writer->resource_keys, key, length, &number);
  if (error != 0) return error;
  if (number < known) {
    writer->value.used = 0;
    return 0;
  }
  const onstack_profile_string *clean = &writer->resource_keys.items[number];
  onstack_otlp_add_key_value(writer, &writer->resource, otlp_resource_attributes, clean->text, clean->length);
  return 0;
}

static int otlp_add_given(onstack_otlp_writer *writer, const onstack_attribute *attribute) {
  if (!attribute->key || attribute->key[0] == '\0' || !attribute->value) return ONSTACK_E_OPTIONS;
  int error = onstack_otlp_text_value(writer, attribute->value, strlen(attribute->value));
  return error != 0 ? error : otlp_add_resource(writer, attribute->key, strlen(attribute->key));
}

/* Takes over an AnyValue that others have made, as `value`: a text, number or truth value, or a list of texts. Others are
   left out. */
static int otlp_take_value(onstack_otlp_writer *writer, const onstack_protobuf_field *from, onstack_protobuf *value) {
  onstack_protobuf_reader reader = onstack_protobuf_read(from);
  onstack_protobuf_field field;
  uint32_t number;
  if (!onstack_protobuf_next(&reader, &field)) return 0;
  if (field.number == otlp_value_string && field.wire == 2) {
    int error = onstack_profile_strings_add(&writer->texts, (const char *)field.bytes, field.length, &number);
    if (error != 0) return error;
    const onstack_profile_string *text = &writer->texts.items[number];
    onstack_protobuf_add_bytes(value, otlp_value_string, text->text, text->length);
  } else if (field.number <= otlp_value_double && field.wire <= 1) {
    onstack_protobuf_add_encoded(value, field.whole, field.whole_length);
  }
  return 0;
}

static int otlp_take_list(onstack_otlp_writer *writer, const onstack_protobuf_field *list) {
  onstack_protobuf_reader reader = onstack_protobuf_read(list);
  onstack_protobuf_field field;
  int error = 0;
  while (error == 0 && onstack_protobuf_next(&reader, &field)) {
    if (field.number != otlp_array_values) continue;
    error = otlp_take_value(writer, &field, &writer->part);
    if (writer->part.used > 0) onstack_protobuf_add_part(&writer->numbers, otlp_array_values, &writer->part);
  }
  onstack_protobuf_add_part(&writer->value, otlp_value_array, &writer->numbers);
  return error;
}

static int otlp_take_key_value(onstack_otlp_writer *writer, const onstack_protobuf_field *pair) {
  onstack_protobuf_reader reader = onstack_protobuf_read(pair), inner;
  onstack_protobuf_field field, key = {0}, list;
  int error = 0;
  writer->value.used = 0;
  while (error == 0 && onstack_protobuf_next(&reader, &field)) {
    if (field.number == otlp_key_value_key && field.wire == 2) key = field;
    if (field.number != otlp_key_value_value || field.wire != 2) continue;
    inner = onstack_protobuf_read(&field);
    writer->value.used = 0;
    if (onstack_protobuf_next(&inner, &list) && list.number == otlp_value_array && list.wire == 2)
      error = otlp_take_list(writer, &list);
    else
      error = otlp_take_value(writer, &field, &writer->value);
  }
  if (error != 0 || key.length == 0) return error;
  return otlp_add_resource(writer, (const char *)key.bytes, key.length);
}

int onstack_otlp_take_context(onstack_otlp_writer *writer, const uint8_t *bytes, size_t length) {
  onstack_protobuf_reader context = {bytes, bytes + length}, resource;
  onstack_protobuf_field field, pair;
  int error = 0;
  while (error == 0 && onstack_protobuf_next(&context, &field)) {
    if (field.number != otlp_context_resource) continue;
    resource = onstack_protobuf_read(&field);
    while (error == 0 && onstack_protobuf_next(&resource, &pair)) {
      if (pair.number == otlp_resource_attributes) error = otlp_take_key_value(writer, &pair);
    }
  }
  writer->value.used = 0;
  return error;
}

static int otlp_take_own_context(onstack_otlp_writer *writer) {
  size_t length = 0;
  uint8_t *bytes = onstack_process_context_copy(&length);
  int error = bytes ? onstack_otlp_take_context(writer, bytes, length) : 0;
  free(bytes);
  return error;
}

/* A resource must have a name; OpenTelemetry's libraries make the same one where they were given none. */
static int otlp_add_unknown_service(onstack_otlp_writer *writer) {
  static const char key[] = "service.name";
  const onstack_profile_maps *maps = writer->report->view.maps;
  char name[256] = "unknown_service";
  for (size_t i = 0; i < maps->count; i++) {
    if (!maps->items[i].main || maps->items[i].retired) continue;
    snprintf(name, sizeof(name), "unknown_service:%s", onstack_profile_mapping_base_name(&maps->items[i]));
    break;
  }
  int error = onstack_otlp_text_value(writer, name, strlen(name));
  return error != 0 ? error : otlp_add_resource(writer, key, sizeof(key) - 1);
}

int onstack_otlp_make_resource(onstack_otlp_writer *writer, bool process_context) {
  int error = onstack_profile_strings_init(&writer->resource_keys);
  for (uint32_t i = 0; error == 0 && i < writer->options->resource_count; i++) {
    error = otlp_add_given(writer, &writer->options->resource[i]);
  }
  if (error == 0 && process_context) error = otlp_take_own_context(writer);
  return error != 0 ? error : otlp_add_unknown_service(writer);
}
