/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Call frame information (.eh_frame: Linux Standard Base 5.0, 10.6; DWARF 5, 6.4) -> rules. Works on a copy of the
 * section and treats every byte as hostile: all reads are bounded, all loops end with the bytes.
 */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_H
#define ONSTACK_SAMPLER_MODULES_CFI_H

#include "sampler/modules/cfi_entry.h"
#include "sampler/unwind/rules.h"

/* Calls `emit` with the rule that holds from each address of the function on, ascending; the first at function->low.
   A part that cannot be represented gets a rule with ONSTACK_CFA_LOST. */
ONSTACK_INTERNAL void onstack_cfi_run(onstack_cfi_section *section, const onstack_cfi_function *function,
                                      void (*emit)(void *data, uint64_t address, const onstack_rule *rule), void *data);

#endif
