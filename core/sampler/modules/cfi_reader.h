/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bounded reading of DWARF's encodings. A read past the end yields zero and makes the reader `bad`, for good. */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_READER_H
#define ONSTACK_SAMPLER_MODULES_CFI_READER_H

#include "platform/defs.h"

#include <string.h>

typedef struct onstack_cfi_reader {
  const uint8_t *base; /* of the section's copy */
  size_t at;
  size_t end;
  uint64_t address; /* where base is loaded */
  bool bad;
} onstack_cfi_reader;

ONSTACK_INTERNAL uint64_t onstack_cfi_long_uleb(onstack_cfi_reader *reader);
ONSTACK_INTERNAL int64_t onstack_cfi_sleb(onstack_cfi_reader *reader);
ONSTACK_INTERNAL void onstack_cfi_skip(onstack_cfi_reader *reader, uint64_t bytes);

/* Little-endian machines only. */
static inline uint64_t onstack_cfi_fixed(onstack_cfi_reader *reader, uint32_t bytes) {
  uint64_t value = 0;
  if (reader->bad || reader->end - reader->at < bytes) {
    reader->bad = true;
    return 0;
  }
  memcpy(&value, reader->base + reader->at, bytes);
  reader->at += bytes;
  return value;
}

/* One byte. Instructions and most of their operands are one byte long: these two are where the time goes. */
static inline uint8_t onstack_cfi_byte(onstack_cfi_reader *reader) {
  if (!reader->bad && reader->at < reader->end) return reader->base[reader->at++];
  reader->bad = true;
  return 0;
}

static inline uint64_t onstack_cfi_uleb(onstack_cfi_reader *reader) {
  if (!reader->bad && reader->at < reader->end && reader->base[reader->at] < 0x80) return reader->base[reader->at++];
  return onstack_cfi_long_uleb(reader);
}

/* A pointer in a DW_EH_PE_* encoding (LSB 10.5.1). Indirect and data-relative ones make the reader bad. */
ONSTACK_INTERNAL uint64_t onstack_cfi_pointer(onstack_cfi_reader *reader, uint8_t encoding);

#endif
