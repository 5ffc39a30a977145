/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How far a function that keeps its frame by RBP has moved SP, from its own first instructions. */
#ifndef ONSTACK_SAMPLER_MODULES_BLOCKED_X86_64_H
#define ONSTACK_SAMPLER_MODULES_BLOCKED_X86_64_H

#include "sampler/unwind/rules.h"

typedef struct onstack_prologue {
  uint64_t entry_low, entry_high; /* the function begins in here */
  uint64_t framed;                /* behind mov %rsp,%rbp */
} onstack_prologue;

/* The prologue of the function that holds `address`: by its module's rules, the CFA is SP+8, SP+16 behind push %rbp, and RBP+16
   behind the move. False: it has none (the part of a function that lies apart). */
ONSTACK_INTERNAL bool onstack_prologue_find(const onstack_module *module, uint64_t address, onstack_prologue *prologue);

/* Bytes between SP at the call before `address` and the saved RBP; negative: the instructions do not tell. */
ONSTACK_INTERNAL int64_t onstack_prologue_depth(const onstack_prologue *prologue, uint64_t address);

#endif
