/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* DWARF's own names: DWARF 5, 7.7.1 and 7.24; DW_EH_PE_*: Linux Standard Base 5.0, 10.5.1. Those that are used here. */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_ENTRY_H
#define ONSTACK_SAMPLER_MODULES_CFI_ENTRY_H

#include "platform/defs.h"

#include <string.h>

/* Call frame instructions. The operand of the last three is in their low six bits. */
enum {
  DW_CFA_nop = 0x00,
  DW_CFA_set_loc = 0x01,
  DW_CFA_advance_loc1 = 0x02,
  DW_CFA_advance_loc2 = 0x03,
  DW_CFA_advance_loc4 = 0x04,
  DW_CFA_offset_extended = 0x05,
  DW_CFA_restore_extended = 0x06,
  DW_CFA_undefined = 0x07,
  DW_CFA_same_value = 0x08,
  DW_CFA_register = 0x09,
  DW_CFA_remember_state = 0x0a,
  DW_CFA_restore_state = 0x0b,
  DW_CFA_def_cfa = 0x0c,
  DW_CFA_def_cfa_register = 0x0d,
  DW_CFA_def_cfa_offset = 0x0e,
  DW_CFA_def_cfa_expression = 0x0f,
  DW_CFA_expression = 0x10,
  DW_CFA_offset_extended_sf = 0x11,
  DW_CFA_def_cfa_sf = 0x12,
  DW_CFA_def_cfa_offset_sf = 0x13,
  DW_CFA_val_offset = 0x14,
  DW_CFA_val_offset_sf = 0x15,
  DW_CFA_val_expression = 0x16,
  DW_CFA_AARCH64_negate_ra_state = 0x2d,
  DW_CFA_GNU_args_size = 0x2e,
  DW_CFA_GNU_negative_offset_extended = 0x2f,
  DW_CFA_advance_loc = 0x40,
  DW_CFA_offset = 0x80,
  DW_CFA_restore = 0xc0
};
#define DW_CFA_OPCODE 0xc0u /* the bits that tell these three, and are zero in all others */
#define DW_CFA_OPERAND 0x3fu

/* Operations of expressions. lit, reg and breg count on from the first: DW_OP_lit0 + 15, DW_OP_breg0 + register. */
enum {
  DW_OP_deref = 0x06,
  DW_OP_and = 0x1a,
  DW_OP_plus = 0x22,
  DW_OP_plus_uconst = 0x23,
  DW_OP_shl = 0x24,
  DW_OP_ge = 0x2a,
  DW_OP_lit0 = 0x30,
  DW_OP_reg0 = 0x50,
  DW_OP_breg0 = 0x70
};

/* Encodings of pointers: a format, and what it is relative to. */
enum {
  DW_EH_PE_absptr = 0x00,
  DW_EH_PE_uleb128 = 0x01,
  DW_EH_PE_udata2 = 0x02,
  DW_EH_PE_udata4 = 0x03,
  DW_EH_PE_datarel = 0x30,
  DW_EH_PE_udata8 = 0x04,
  DW_EH_PE_sleb128 = 0x09,
  DW_EH_PE_sdata2 = 0x0a,
  DW_EH_PE_sdata4 = 0x0b,
  DW_EH_PE_sdata8 = 0x0c,
  DW_EH_PE_pcrel = 0x10,
  DW_EH_PE_indirect = 0x80,
  DW_EH_PE_omit = 0xff
};
#define DW_EH_PE_FORMAT 0x0fu
#define DW_EH_PE_RELATIVE 0xf0u

/* What .eh_frame is made of: encoded numbers, the state that its instructions change, and its entries. */

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
