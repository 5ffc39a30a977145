/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The few DWARF expressions that compilers and linkers write into .eh_frame: recognised by their shape, not evaluated. */
#ifndef ONSTACK_SAMPLER_MODULES_CFI_EXPRESSION_H
#define ONSTACK_SAMPLER_MODULES_CFI_EXPRESSION_H

#include "sampler/modules/cfi_reader.h"
#include "sampler/modules/cfi_state.h"

/* Sets the CFA's part of the state to what the expression says; ONSTACK_CFA_LOST where its shape is unknown. */
ONSTACK_INTERNAL void onstack_cfi_expression_cfa(onstack_cfi_reader expression, cfi_state *state);

/* "The saved FP is where FP points": what compilers write for functions that realign their stack. */
ONSTACK_INTERNAL bool onstack_cfi_expression_is_fp(onstack_cfi_reader expression);

#endif
