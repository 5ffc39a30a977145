/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * aarch64: the one function whose CFI is known to be wrong, and found in every process. glibc's lazy resolver
 * (sysdeps/aarch64/dl-trampoline.S) leaves out of its CFA the two words that .plt pushed, x16 and LR: alone among all
 * functions it has LR above its CFA. Before its last instruction, br, both are popped again.
 */
#ifndef ONSTACK_CONTROL_UNWIND_CFI_RESOLVER_H
#define ONSTACK_CONTROL_UNWIND_CFI_RESOLVER_H

#include "control/unwind/cfi_reader.h"
#include "control/unwind/cfi_state.h"
#include "handler/unwind/rules/rules.h"

#include <string.h>

/* Makes a rule of the resolver what its instructions do; leaves all others. */
static inline void onstack_cfi_mend_resolver(onstack_rule *rule) {
  if (rule->ra != 1 || rule->fp != ONSTACK_AT_SAME) return;
  rule->cfa_offset += 16;
  rule->ra = rule->cfa == ONSTACK_CFA_SP && rule->cfa_offset == 0 ? ONSTACK_AT_SAME : -1;
}

/* Its first instruction, bti c, stands before that CFI (DW_CFA_offset_extended_sf 30, -1), though .plt has pushed. To be
   asked at a function's first advance, with what follows and the CIE's data alignment. */
static inline void onstack_cfi_foresee_resolver(cfi_state *state, const onstack_cfi_reader *next, int64_t data_align) {
  static const uint8_t saves_lr[] = {0x11, CFI_REG_LR, 0x7f};
  if (data_align == -8 && next->end - next->at >= sizeof(saves_lr) &&
      memcmp(next->base + next->at, saves_lr, sizeof(saves_lr)) == 0)
    state->ra = (cfi_register){CFI_AT_CFA, 8};
}

#endif
