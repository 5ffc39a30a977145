/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the rules of call frame information say at one instruction, of the few registers that are followed (cfi.c). */
#ifndef ONSTACK_CONTROL_UNWIND_CFI_STATE_H
#define ONSTACK_CONTROL_UNWIND_CFI_STATE_H

#include "base/defs.h"

#if defined(__x86_64__) /* System V ABI AMD64, figure 3.36 */
#define CFI_REG_FP 6u
#define CFI_REG_SP 7u
#define CFI_REG_BX 3u
#define CFI_REG_COUNT 16u /* general registers, which the kernel saves in order */
#else                     /* DWARF for the Arm 64-bit architecture, 4.1; there is no counterpart to RBX that we need */
#define CFI_REG_FP 29u
#define CFI_REG_SP 31u
#define CFI_REG_LR 30u
#define CFI_REG_BX 0xfffffffeu
#define CFI_REG_COUNT 31u
#endif

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
