/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What .eh_frame is made of: encoded numbers, the state that its instructions change, and its entries. */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_ENTRY_H
#define ONSTACK_SAMPLER_MODULES_CFI_ENTRY_H

#include "platform/defs.h"

#include <string.h>

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

/* Bounded reading of DWARF's encodings. A read past the end yields zero and makes the reader `bad`, for good. */

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

/* ---- state at one instruction -------------------------------------------------------------------------------------------- */

/* What the rules of call frame information say at one instruction, of the few registers that are followed (cfi.c). */

/* Where a register of the caller is. */
typedef enum cfi_place { CFI_SAME, CFI_AT_CFA, CFI_AT_FP, CFI_UNDEFINED, CFI_UNKNOWN } cfi_place;

typedef struct cfi_register {
  cfi_place place;
  int64_t offset; /* CFI_AT_CFA */
} cfi_register;

typedef struct cfi_state {
  uint8_t cfa_kind; /* ONSTACK_CFA_*; LOST: not representable */
  uint8_t cfa_after;
  int64_t cfa_offset;
  cfi_register fp, ra, bx;
} cfi_state;

/* ---- entries ------------------------------------------------------------------------------------------------------------- */

/* The entries of .eh_frame: what functions have in common (CIE), and each function's own (FDE). */

/* What functions have in common (a CIE). */
typedef struct onstack_cfi_common {
  uint64_t code_align;
  int64_t data_align;
  uint64_t ra_register;
  uint8_t pointer_encoding;
  bool has_augmentation; /* 'z': an FDE has augmentation data, of a length that it says */
  bool signal_frame;     /* 'S' */
  size_t instructions;   /* offsets in the section */
  size_t end;
  cfi_state initial; /* what the instructions make, once they have run (cfi.c) */
  bool ran, good;
} onstack_cfi_common;

typedef struct onstack_cfi_section {
  const uint8_t *bytes; /* the copy */
  size_t size;
  uint64_t address; /* where the section is loaded: what pc-relative pointers are relative to */
  /* The CIE that was read last: thousands of functions in a row share one. Zeros at first. */
  onstack_cfi_common common;
  uint64_t common_offset;
  bool common_good;
} onstack_cfi_section;

/* A function's entry, in the section's order. */
typedef struct onstack_cfi_function {
  uint64_t low;
  uint64_t high;
  uint32_t entry; /* offset of its FDE in the section */
} onstack_cfi_function;

/* Calls `visit` for each FDE; stops when it returns false, at the terminator, or where the section is malformed. */
ONSTACK_INTERNAL void onstack_cfi_each(onstack_cfi_section *section,
                                       bool (*visit)(void *data, const onstack_cfi_function *function), void *data);

/* Opens the FDE at `entry`: *instructions is left at its instructions, and section->common is its CIE. False: it is
   none, or malformed. */
ONSTACK_INTERNAL bool onstack_cfi_open(onstack_cfi_section *section, uint32_t entry, onstack_cfi_reader *instructions);

#endif
