/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/protobuf.h"

#include "profile/store/arena.h"

#include <stdlib.h>
#include <string.h>

#define ONSTACK_PROTOBUF_WIRE_VARINT 0u
#define ONSTACK_PROTOBUF_WIRE_FIXED 1u
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

void onstack_protobuf_add_chosen(onstack_protobuf *message, uint32_t field, uint64_t value) {
  onstack_protobuf_add_varint(message, (uint64_t)field << 3 | ONSTACK_PROTOBUF_WIRE_VARINT);
  onstack_protobuf_add_varint(message, value);
}

void onstack_protobuf_add_number(onstack_protobuf *message, uint32_t field, uint64_t value) {
  if (value != 0) onstack_protobuf_add_chosen(message, field, value);
}

void onstack_protobuf_add_fixed(onstack_protobuf *message, uint32_t field, uint64_t value) {
  if (value == 0) return;
  onstack_protobuf_add_varint(message, (uint64_t)field << 3 | ONSTACK_PROTOBUF_WIRE_FIXED);
  if (!protobuf_room(message, sizeof(value))) return;
  for (int shift = 0; shift < 64; shift += 8) message->bytes[message->used++] = (uint8_t)(value >> shift);
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

void onstack_protobuf_add_text(onstack_protobuf *message, uint32_t field, const char *text) {
  onstack_protobuf_add_bytes(message, field, text, strlen(text));
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
