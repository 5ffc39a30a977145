/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/otlp/otlp_fields.h"
#include "profile/otlp/otlp_writer.h"

#include <errno.h>
#include <string.h>

#define ONSTACK_OTLP_TRACE_ID 16u /* bytes */
#define ONSTACK_OTLP_SPAN_ID 8u

int onstack_otlp_text_value(onstack_otlp_writer *writer, const char *text, size_t length) {
  uint32_t number;
  int error = onstack_profile_strings_add(&writer->texts, text, length, &number);
  if (error != 0) return error;
  const onstack_profile_string *clean = &writer->texts.items[number];
  onstack_protobuf_add_bytes(&writer->value, otlp_value_string, clean->text, clean->length);
  return 0;
}

int onstack_otlp_attribute(onstack_otlp_writer *writer, const char *key, uint32_t *number) {
  uint32_t key_number;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, key, &key_number);
  if (error != 0) return error;
  onstack_protobuf *part = &writer->part;
  onstack_protobuf_add_number(part, otlp_attribute_key, key_number);
  onstack_protobuf_add_part(part, otlp_attribute_value, &writer->value);
  if (part->failed) return -ENOMEM;
  error = onstack_profile_strings_add_bytes(&writer->attributes, part->bytes, part->used, number);
  part->used = 0;
  return error;
}

int onstack_otlp_add_attribute(onstack_otlp_writer *writer, const char *key, onstack_protobuf *numbers) {
  uint32_t number;
  int error = onstack_otlp_attribute(writer, key, &number);
  if (error == 0) onstack_protobuf_add_varint(numbers, number);
  return error;
}

void onstack_otlp_add_key_value(onstack_otlp_writer *writer, onstack_protobuf *message, uint32_t field, const char *key,
                                size_t length) {
  onstack_protobuf_add_bytes(&writer->part, otlp_key_value_key, key, length);
  onstack_protobuf_add_part(&writer->part, otlp_key_value_value, &writer->value);
  onstack_protobuf_add_part(message, field, &writer->part);
}

/* Whether the sample has this key already. Keys that were no text may have become the same: numbers are compared. */
static bool otlp_has_key(onstack_otlp_writer *writer, uint32_t key) {
  for (uint32_t i = 0; i < writer->key_count; i++) {
    if (writer->keys[i] == key) return true;
  }
  writer->keys[writer->key_count++] = key;
  return false;
}

/* An attribute without a key says nothing, and a second one with the same key must not be: the first stands. */
static int otlp_add_label(onstack_otlp_writer *writer, const char *key) {
  uint32_t key_number;
  int error = onstack_profile_strings_add_text(&writer->report->symbols.strings, key, &key_number);
  if (error != 0) return error;
  if (key_number != 0 && !otlp_has_key(writer, key_number)) {
    return onstack_otlp_add_attribute(writer, key, &writer->numbers);
  }
  writer->value.used = 0;
  return 0;
}

static int otlp_hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* An id in hexadecimal digits; false: it is none. All zeros are none by definition. */
static bool otlp_read_id(const char *text, uint8_t *id, size_t bytes) {
  bool any = false;
  if (!text || strlen(text) != 2 * bytes) return false;
  for (size_t i = 0; i < bytes; i++) {
    int high = otlp_hex(text[2 * i]), low = otlp_hex(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    id[i] = (uint8_t)(high << 4 | low);
    any = any || id[i] != 0;
  }
  return any;
}

/* The number of the link that two labels mean; 0: they mean none. */
static int otlp_link(onstack_otlp_writer *writer, const char *trace, const char *span, uint32_t *number) {
  uint8_t trace_id[ONSTACK_OTLP_TRACE_ID], span_id[ONSTACK_OTLP_SPAN_ID];
  onstack_protobuf *part = &writer->part;
  *number = 0;
  if (!otlp_read_id(trace, trace_id, sizeof(trace_id)) || !otlp_read_id(span, span_id, sizeof(span_id))) return 0;
  onstack_protobuf_add_bytes(part, otlp_link_trace_id, trace_id, sizeof(trace_id));
  onstack_protobuf_add_bytes(part, otlp_link_span_id, span_id, sizeof(span_id));
  if (part->failed) return -ENOMEM;
  int error = onstack_profile_strings_add_bytes(&writer->links, part->bytes, part->used, number);
  part->used = 0;
  return error;
}

typedef struct otlp_pair {
  const char *key, *value;
} otlp_pair;

/* The sink has seen to it that there are pairs, and that each string ends. */
static uint32_t otlp_next_label(const onstack_profile_stack *stack, uint32_t at, otlp_pair *pair) {
  pair->key = stack->head->labels + at;
  pair->value = pair->key + strlen(pair->key) + 1;
  return (uint32_t)(pair->value + strlen(pair->value) + 1 - stack->head->labels);
}

static int otlp_find_link(onstack_otlp_writer *writer, const onstack_profile_stack *stack, uint32_t *link) {
  const char *trace = NULL, *span = NULL;
  otlp_pair pair;
  for (uint32_t at = 0; at < stack->head->label_bytes;) {
    at = otlp_next_label(stack, at, &pair);
    if (!trace && strcmp(pair.key, "trace_id") == 0) trace = pair.value;
    if (!span && strcmp(pair.key, "span_id") == 0) span = pair.value;
  }
  return otlp_link(writer, trace, span, link);
}

static int otlp_add_thread(onstack_otlp_writer *writer, const onstack_profile_stack *stack) {
  int error = 0;
  if (stack->head->thread_name[0] != '\0') {
    error = onstack_otlp_text_value(writer, stack->head->thread_name, strlen(stack->head->thread_name));
    if (error == 0) error = otlp_add_label(writer, "thread.name");
  }
  if (error == 0 && stack->head->tid != 0) {
    onstack_protobuf_add_chosen(&writer->value, otlp_value_int, (uint64_t)stack->head->tid);
    error = otlp_add_label(writer, "thread.id");
  }
  return error;
}

int onstack_otlp_labels(onstack_otlp_writer *writer, const onstack_profile_stack *stack, uint32_t *link) {
  writer->key_count = 0;
  int error = otlp_find_link(writer, stack, link);
  if (error == 0) error = otlp_add_thread(writer, stack);
  for (uint32_t at = 0; error == 0 && at < stack->head->label_bytes;) {
    otlp_pair pair;
    at = otlp_next_label(stack, at, &pair);
    if (*link != 0 && (strcmp(pair.key, "trace_id") == 0 || strcmp(pair.key, "span_id") == 0)) continue;
    error = onstack_otlp_text_value(writer, pair.value, strlen(pair.value));
    if (error == 0) error = otlp_add_label(writer, pair.key);
  }
  return error;
}
