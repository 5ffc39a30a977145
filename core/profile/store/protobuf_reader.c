/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/store/protobuf_reader.h"

bool onstack_protobuf_varint(onstack_protobuf_reader *reader, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
    const uint8_t byte = *reader->at++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

static bool protobuf_take(onstack_protobuf_reader *reader, onstack_protobuf_field *field, uint64_t length) {
  if (length > (uint64_t)(reader->end - reader->at)) return false;
  field->bytes = reader->at;
  field->length = (size_t)length;
  reader->at += length;
  return true;
}

bool onstack_protobuf_next(onstack_protobuf_reader *reader, onstack_protobuf_field *field) {
  uint64_t key, length;
  *field = (onstack_protobuf_field){.whole = reader->at};
  if (!onstack_protobuf_varint(reader, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX) return false;
  field->number = (uint32_t)(key >> 3);
  field->wire = (uint32_t)(key & 7);
  bool read = false;
  if (field->wire == 0) read = onstack_protobuf_varint(reader, &field->value);
  if (field->wire == 1) read = protobuf_take(reader, field, 8);
  if (field->wire == 2) read = onstack_protobuf_varint(reader, &length) && protobuf_take(reader, field, length);
  if (field->wire == 5) read = protobuf_take(reader, field, 4);
  field->whole_length = (size_t)(reader->at - field->whole);
  return read;
}

onstack_protobuf_reader onstack_protobuf_read(const onstack_protobuf_field *field) {
  return (onstack_protobuf_reader){field->bytes, field->wire == 2 ? field->bytes + field->length : field->bytes};
}
