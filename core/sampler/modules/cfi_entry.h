/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The entries of .eh_frame: what functions have in common (CIE), and each function's own (FDE). */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_ENTRY_H
#define ONSTACK_SAMPLER_MODULES_CFI_ENTRY_H

#include "sampler/modules/cfi_reader.h"
#include "sampler/modules/cfi_state.h"

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
