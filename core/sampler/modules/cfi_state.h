/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the rules of call frame information say at one instruction, of the few registers that are followed (cfi.c). */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_STATE_H
#define ONSTACK_SAMPLER_MODULES_CFI_STATE_H

#include "platform/defs.h"

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

#endif
