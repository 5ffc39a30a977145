/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Call frame information (.eh_frame: Linux Standard Base 5.0, 10.6; DWARF 5, 6.4) -> rules. Works on a copy of the
 * section and treats every byte as hostile: all reads are bounded, all loops end with the bytes.
 */
#ifndef ONSTACK_CONTROL_UNWIND_CFI_H
#define ONSTACK_CONTROL_UNWIND_CFI_H

#include "handler/unwind/rules/rules.h"

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

/* Calls `emit` with the rule that holds from each address of the function on, ascending; the first at function->low.
   A part that cannot be represented gets a rule with ONSTACK_CFA_LOST. */
ONSTACK_INTERNAL void onstack_cfi_run(onstack_cfi_section *section, const onstack_cfi_function *function,
                                      void (*emit)(void *data, uint64_t address, const onstack_rule *rule), void *data);

#endif
