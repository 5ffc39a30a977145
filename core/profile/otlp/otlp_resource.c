/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/defs.h"
#include "platform/proc.h"
#include "platform/process.h"
#include "profile/otlp/otlp.h"
#include "profile/store/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What an OpenTelemetry library in this process has published about it (OTEP 4719, version 2): a mapping named OTEL_CTX whose
 * head leads to an encoded ProcessContext. Another thread may change or unmap it at any instant, so all is copied by the
 * kernel, and the head's time of publication is compared before and after.
 */

/* Larger ones are left alone. */
#define ONSTACK_PROCESS_CONTEXT_BYTES ((uint32_t)64 * 1024)

#ifdef __linux__

#define ONSTACK_PROCESS_CONTEXT_TRIES 10 /* while it is being changed */

typedef struct process_context_head {
  char signature[8];
  uint32_t version;
  uint32_t payload_bytes;
  uint64_t published_ns; /* CLOCK_BOOTTIME; 0: it is being changed, and it is never the same twice */
  uint64_t payload;
} process_context_head;
_Static_assert(sizeof(process_context_head) == 32, "others write as much");

static bool process_context_head_at(uint64_t address, process_context_head *head) {
  return onstack_process_memory_read(address, head, sizeof(*head)) && memcmp(head->signature, "OTEL_CTX", 8) == 0 &&
         head->version == 2;
}

/* Whoever made the mapping may have named it, its file, or both. */
static void process_context_visit(void *data, const onstack_mapping *mapping) {
  static const char *const names[] = {"[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX"};
  uint64_t *address = data;
  process_context_head head;
  for (size_t i = 0; *address == 0 && i < sizeof(names) / sizeof(*names); i++) {
    const size_t length = strlen(names[i]);
    if (mapping->path_length < length || memcmp(mapping->path, names[i], length) != 0) continue;
    if (process_context_head_at(mapping->low, &head)) *address = mapping->low;
  }
}

static uint8_t *process_context_try(uint64_t address, size_t *length) {
  process_context_head head, after;
  if (!process_context_head_at(address, &head) || head.published_ns == 0) return NULL;
  if (head.payload_bytes == 0 || head.payload_bytes > ONSTACK_PROCESS_CONTEXT_BYTES) return NULL;
  uint8_t *payload = malloc(head.payload_bytes);
  if (payload && onstack_process_memory_read(head.payload, payload, head.payload_bytes) &&
      process_context_head_at(address, &after) && after.published_ns == head.published_ns) {
    *length = head.payload_bytes;
    return payload;
  }
  free(payload);
  return NULL;
}

/* The encoded ProcessContext, which the caller frees; NULL: there is none, or it cannot be read. Ordinary threads. */
static uint8_t *process_context_copy(size_t *length) {
  uint64_t address = 0;
  uint8_t *payload = NULL;
  if (onstack_proc_maps_each(process_context_visit, &address) != 0 || address == 0) return NULL;
  for (int i = 0; !payload && i < ONSTACK_PROCESS_CONTEXT_TRIES; i++) payload = process_context_try(address, length);
  return payload;
}
#else
uint8_t *process_context_copy(size_t *length) {
  *length = 0;
  return NULL;
}
#endif

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
  uint8_t *bytes = process_context_copy(&length);
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
