/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What an x86_64 instruction does to the chain of callers: only these kinds matter. */
#ifndef ONSTACK_TRUTH_INSTRUCTION_H
#define ONSTACK_TRUTH_INSTRUCTION_H

#include <stdint.h>

typedef enum truth_instruction { TRUTH_OTHER, TRUTH_CALL, TRUTH_SYSCALL } truth_instruction;

/* `code` holds at least 16 bytes. */
truth_instruction truth_instruction_kind(const uint8_t *code);

#endif
