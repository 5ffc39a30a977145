/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reading of protobuf messages that others have made: nothing in them is believed. */
#ifndef ONSTACK_PROFILE_STORE_PROTOBUF_READER_H
#define ONSTACK_PROFILE_STORE_PROTOBUF_READER_H

#include "platform/defs.h"

typedef struct onstack_protobuf_field {
  uint32_t number;
  uint32_t wire; /* 0: a varint, in `value`; 1: eight bytes, 2: a string or message, 5: four bytes, in `bytes` */
  uint64_t value;
  const uint8_t *bytes;
  size_t length;
  const uint8_t *whole; /* the field as it lies in the message */
  size_t whole_length;
} onstack_protobuf_field;

typedef struct onstack_protobuf_reader {
  const uint8_t *at, *end;
} onstack_protobuf_reader;

/* A bare varint; false: it does not end here. */
ONSTACK_INTERNAL bool onstack_protobuf_varint(onstack_protobuf_reader *reader, uint64_t *value);

/* The next field; false: there is none, or the message is damaged here. */
ONSTACK_INTERNAL bool onstack_protobuf_next(onstack_protobuf_reader *reader, onstack_protobuf_field *field);

/* A reader of a field's message. */
ONSTACK_INTERNAL onstack_protobuf_reader onstack_protobuf_read(const onstack_protobuf_field *field);

#endif
