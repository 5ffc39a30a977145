/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The link register is not in the file, and a function that makes a system call has most often not stored it. So the walk
 * ends there: a search for a frame record would lose callers between without a word.
 */
#include "sampler/modules/blocked.h"

#if defined(__aarch64__)

#include "sampler/unwind/unwinder.h"

void onstack_blocked_registers(uint64_t pc, uint64_t sp, onstack_registers *registers) {
  *registers = (onstack_registers){.pc = pc, .sp = sp, .lr = ONSTACK_UNKNOWN_REGISTER};
}

#endif
