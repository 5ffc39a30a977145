/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bytes on their way to the host's writer: gathered, so that it is called a few times and not for each number. */
#ifndef ONSTACK_PROFILE_STORE_OUTPUT_H
#define ONSTACK_PROFILE_STORE_OUTPUT_H

#include "platform/defs.h"

#include "onstack/onstack.h"

typedef struct onstack_profile_output {
  onstack_writer writer;
  void *data;
  char *buffer;
  size_t used;
  int error; /* 0, or ONSTACK_E_OUTPUT: the writer refused, and is not called again */
} onstack_profile_output;

/* Errors: -ENOMEM. */
ONSTACK_INTERNAL int onstack_profile_output_open(onstack_profile_output *output, onstack_writer writer, void *data);
/* Passes on what is left (if `error` is 0) and releases. Returns `error`, or ONSTACK_E_OUTPUT. */
ONSTACK_INTERNAL int onstack_profile_output_close(onstack_profile_output *output, int error);
/* Both return output->error, so that a caller may look now and then only. */
ONSTACK_INTERNAL int onstack_profile_output_put(onstack_profile_output *output, const void *bytes, size_t length);

/* Encoding of one protobuf message into memory that is used again for the next. */

/* All zero: empty, ready to use. After a failed allocation `failed` is set and additions do nothing: look once at the
   end. */
typedef struct onstack_protobuf {
  uint8_t *bytes;
  size_t used;
  size_t capacity;
  bool failed;
} onstack_protobuf;

#define ONSTACK_PROTOBUF_VARINT 10u /* bytes of the longest */

/* Writes a varint, and returns its bytes. */
ONSTACK_INTERNAL size_t onstack_protobuf_put_varint(uint8_t out[ONSTACK_PROTOBUF_VARINT], uint64_t value);
/* A bare varint: an element of a packed field. */
ONSTACK_INTERNAL void onstack_protobuf_add_varint(onstack_protobuf *message, uint64_t value);
/* A varint field; 0 is the default and is left out. Negative numbers go in as two's complement. */
ONSTACK_INTERNAL void onstack_protobuf_add_number(onstack_protobuf *message, uint32_t field, uint64_t value);
/* Encoded fields as they are. */
ONSTACK_INTERNAL void onstack_protobuf_add_encoded(onstack_protobuf *message, const void *bytes, size_t length);
/* The beginning of a string, nested message or packed field of so many bytes, which come behind it. */
ONSTACK_INTERNAL void onstack_protobuf_add_head(onstack_protobuf *message, uint32_t field, size_t length);
/* A string, nested message or packed field. */
ONSTACK_INTERNAL void onstack_protobuf_add_bytes(onstack_protobuf *message, uint32_t field, const void *bytes,
                                                 size_t length);
/* Adds `part` as a nested message or packed field, and empties it. A failure of the part is a failure of the whole. */
ONSTACK_INTERNAL void onstack_protobuf_add_part(onstack_protobuf *message, uint32_t field, onstack_protobuf *part);
ONSTACK_INTERNAL void onstack_protobuf_release(onstack_protobuf *message);

#endif
