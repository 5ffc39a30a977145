/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of cfi.c for x86_64. */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_X86_64_H
#define ONSTACK_SAMPLER_MODULES_CFI_X86_64_H

#include "sampler/modules/cfi_entry.h"
#include "sampler/unwind/rules.h"

/* System V ABI AMD64, figure 3.36. */
#define CFI_REG_FP 6u
#define CFI_REG_SP 7u
#define CFI_REG_BX 3u
#define CFI_REG_COUNT 16u

static inline void onstack_cfi_foresee(cfi_state *state, const onstack_cfi_reader *next, int64_t data_align) {
  (void)state;
  (void)next;
  (void)data_align;
}

static inline void onstack_cfi_repair(onstack_rule *rule) { (void)rule; }

#endif
