/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of cfi.c for aarch64, where one function's CFI is known to be wrong, and found in every process. glibc's
 * lazy resolver (sysdeps/aarch64/dl-trampoline.S) leaves out of its CFA the two words that .plt pushed, x16 and LR: alone
 * among all functions it has LR above its CFA. Before its last instruction, br, both are popped again.
 */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_AARCH64_H
#define ONSTACK_SAMPLER_MODULES_CFI_AARCH64_H

#include "sampler/modules/cfi_entry.h"
#include "sampler/unwind/rules.h"

#include <string.h>

/* DWARF for the Arm 64-bit architecture, 4.1. */
#define CFI_REG_FP 29u
#define CFI_REG_SP 31u
#define CFI_REG_LR 30u
#define CFI_REG_BX 0xfffffffeu
#define CFI_REG_COUNT 31u

/* The resolver's first instruction, bti c, stands before that CFI, though .plt has pushed. */
static inline void onstack_cfi_foresee(cfi_state *state, const onstack_cfi_reader *next, int64_t data_align) {
  static const uint8_t saves_lr[] = {DW_CFA_offset_extended_sf, CFI_REG_LR, 0x7f /* -1 */};
  if (data_align == -8 && next->end - next->at >= sizeof(saves_lr) &&
      memcmp(next->base + next->at, saves_lr, sizeof(saves_lr)) == 0)
    state->ra = (cfi_register){CFI_AT_CFA, 8};
}

/* Makes a rule of the resolver what its instructions do; leaves all others. */
static inline void onstack_cfi_repair(onstack_rule *rule) {
  if (rule->ra != 1 || rule->fp != ONSTACK_AT_SAME) return;
  rule->cfa_offset += 16;
  rule->ra = rule->cfa == ONSTACK_CFA_SP && rule->cfa_offset == 0 ? ONSTACK_AT_SAME : -1;
}

#endif
