/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Encoding of one protobuf message into memory that is used again for the next. */
#ifndef ONSTACK_PROFILE_PPROF_PPROF_MESSAGE_H
#define ONSTACK_PROFILE_PPROF_PPROF_MESSAGE_H

#include "base/defs.h"

/* All zero: empty, ready to use. After a failed allocation `failed` is set and additions do nothing: look once at the
   end. */
typedef struct onstack_pprof_message {
  uint8_t *bytes;
  size_t used;
  size_t capacity;
  bool failed;
} onstack_pprof_message;

/* A bare varint: an element of a packed field. */
ONSTACK_INTERNAL void onstack_pprof_add_varint(onstack_pprof_message *message, uint64_t value);
/* A varint field; 0 is the default and is left out. Negative numbers go in as two's complement. */
ONSTACK_INTERNAL void onstack_pprof_add_number(onstack_pprof_message *message, uint32_t field, uint64_t value);
/* A string, nested message or packed field. */
ONSTACK_INTERNAL void onstack_pprof_add_bytes(onstack_pprof_message *message, uint32_t field, const void *bytes,
                                              size_t length);
/* Adds `part` as a nested message or packed field, and empties it. A failure of the part is a failure of the whole. */
ONSTACK_INTERNAL void onstack_pprof_add_part(onstack_pprof_message *message, uint32_t field, onstack_pprof_message *part);
ONSTACK_INTERNAL void onstack_pprof_message_release(onstack_pprof_message *message);

#endif
