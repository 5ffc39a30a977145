/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/pprof/pprof_message.h"

#include "profile/arena.h"

#include <stdlib.h>
#include <string.h>

#define ONSTACK_PPROF_VARINT_BYTES 10u
#define ONSTACK_PPROF_WIRE_VARINT 0u
#define ONSTACK_PPROF_WIRE_BYTES 2u

static bool pprof_message_room(onstack_pprof_message *message, size_t bytes) {
  if (message->failed) return false;
  if (bytes <= message->capacity - message->used) return true;
  void *grown = bytes > SIZE_MAX - message->used
                    ? NULL
                    : onstack_profile_grow(message->bytes, &message->capacity, message->used + bytes, 1);
  message->failed = !grown;
  if (grown) message->bytes = grown;
  return grown;
}

void onstack_pprof_add_varint(onstack_pprof_message *message, uint64_t value) {
  if (!pprof_message_room(message, ONSTACK_PPROF_VARINT_BYTES)) return;
  for (; value >= 0x80; value >>= 7) message->bytes[message->used++] = (uint8_t)(value | 0x80);
  message->bytes[message->used++] = (uint8_t)value;
}

void onstack_pprof_add_number(onstack_pprof_message *message, uint32_t field, uint64_t value) {
  if (value == 0) return;
  onstack_pprof_add_varint(message, (uint64_t)field << 3 | ONSTACK_PPROF_WIRE_VARINT);
  onstack_pprof_add_varint(message, value);
}

void onstack_pprof_add_bytes(onstack_pprof_message *message, uint32_t field, const void *bytes, size_t length) {
  onstack_pprof_add_varint(message, (uint64_t)field << 3 | ONSTACK_PPROF_WIRE_BYTES);
  onstack_pprof_add_varint(message, length);
  if (length == 0 || !pprof_message_room(message, length)) return;
  memcpy(message->bytes + message->used, bytes, length);
  message->used += length;
}

void onstack_pprof_add_part(onstack_pprof_message *message, uint32_t field, onstack_pprof_message *part) {
  message->failed = message->failed || part->failed;
  onstack_pprof_add_bytes(message, field, part->bytes, part->used);
  part->used = 0;
}

void onstack_pprof_message_release(onstack_pprof_message *message) {
  free(message->bytes);
  *message = (onstack_pprof_message){0};
}
