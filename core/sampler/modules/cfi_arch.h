/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What call frame information says in terms of a processor, from the file that is named after it. Each defines
 *
 *   CFI_REG_FP, _SP, _BX        DWARF numbers; CFI_REG_BX is a number that nothing has where there is no counterpart to RBX
 *                               that we need
 *   CFI_REG_COUNT               general registers, which the kernel saves in order
 *   onstack_cfi_foresee         asked at a function's first advance, with what follows and the CIE's data alignment:
 *                               where the code in front of it is known better than described, corrects the state
 *   onstack_cfi_repair          the same for a rule that was made
 */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_ARCH_H
#define ONSTACK_SAMPLER_MODULES_CFI_ARCH_H

#if defined(__x86_64__)
#include "sampler/modules/cfi_x86_64.h"
#elif defined(__aarch64__)
#include "sampler/modules/cfi_aarch64.h"
#endif

#endif
