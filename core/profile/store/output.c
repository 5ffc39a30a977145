/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/output.h"

#include "platform/calls.h"
#include "platform/process.h"
#include "profile/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ONSTACK_OUTPUT_BYTES ((size_t)64 * 1024)

int onstack_profile_output_open(onstack_profile_output *output, onstack_writer writer, void *data) {
  *output = (onstack_profile_output){.writer = writer, .data = data, .buffer = malloc(ONSTACK_OUTPUT_BYTES)};
  return !output->buffer ? -ENOMEM : 0;
}

static void output_send(onstack_profile_output *output, const void *bytes, size_t length) {
  ONSTACK_STOP_EXCEPTIONS;
  const uint32_t ours = onstack_ours;
  if (output->error != 0 || length == 0) return;
  onstack_ours = 0; /* the writer is the host's */
  if (output->writer(output->data, bytes, length) != 0) output->error = ONSTACK_E_OUTPUT;
  onstack_ours = ours;
}

static int output_flush(onstack_profile_output *output) {
  output_send(output, output->buffer, output->used);
  output->used = 0;
  return output->error;
}

int onstack_profile_output_put(onstack_profile_output *output, const void *bytes, size_t length) {
  if (length > ONSTACK_OUTPUT_BYTES - output->used) output_flush(output);
  if (length > ONSTACK_OUTPUT_BYTES) {
    output_send(output, bytes, length);
  } else if (length > 0) {
    memcpy(output->buffer + output->used, bytes, length);
    output->used += length;
  }
  return output->error;
}

int onstack_profile_output_close(onstack_profile_output *output, int error) {
  if (error == 0) error = output_flush(output);
  free(output->buffer);
  *output = (onstack_profile_output){0};
  return error;
}

#define ONSTACK_PROTOBUF_WIRE_VARINT 0u
#define ONSTACK_PROTOBUF_WIRE_BYTES 2u

static bool protobuf_room(onstack_protobuf *message, size_t bytes) {
  if (message->failed) return false;
  if (bytes <= message->capacity - message->used) return true;
  void *grown = bytes > SIZE_MAX - message->used
                    ? NULL
                    : onstack_profile_grow(message->bytes, &message->capacity, message->used + bytes, 1);
  message->failed = !grown;
  if (grown) message->bytes = grown;
  return grown;
}

size_t onstack_protobuf_put_varint(uint8_t out[ONSTACK_PROTOBUF_VARINT], uint64_t value) {
  size_t length = 0;
  for (; value >= 0x80; value >>= 7) out[length++] = (uint8_t)(value | 0x80);
  out[length++] = (uint8_t)value;
  return length;
}

void onstack_protobuf_add_varint(onstack_protobuf *message, uint64_t value) {
  if (!protobuf_room(message, ONSTACK_PROTOBUF_VARINT)) return;
  message->used += onstack_protobuf_put_varint(message->bytes + message->used, value);
}

void onstack_protobuf_add_number(onstack_protobuf *message, uint32_t field, uint64_t value) {
  if (value == 0) return;
  onstack_protobuf_add_varint(message, (uint64_t)field << 3 | ONSTACK_PROTOBUF_WIRE_VARINT);
  onstack_protobuf_add_varint(message, value);
}

void onstack_protobuf_add_encoded(onstack_protobuf *message, const void *bytes, size_t length) {
  if (length == 0 || !protobuf_room(message, length)) return;
  memcpy(message->bytes + message->used, bytes, length);
  message->used += length;
}

void onstack_protobuf_add_head(onstack_protobuf *message, uint32_t field, size_t length) {
  onstack_protobuf_add_varint(message, (uint64_t)field << 3 | ONSTACK_PROTOBUF_WIRE_BYTES);
  onstack_protobuf_add_varint(message, length);
}

void onstack_protobuf_add_bytes(onstack_protobuf *message, uint32_t field, const void *bytes, size_t length) {
  onstack_protobuf_add_head(message, field, length);
  onstack_protobuf_add_encoded(message, bytes, length);
}

void onstack_protobuf_add_part(onstack_protobuf *message, uint32_t field, onstack_protobuf *part) {
  message->failed = message->failed || part->failed;
  onstack_protobuf_add_bytes(message, field, part->bytes, part->used);
  part->used = 0;
}

void onstack_protobuf_release(onstack_protobuf *message) {
  free(message->bytes);
  *message = (onstack_protobuf){0};
}
