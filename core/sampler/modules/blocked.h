/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where a walk of a blocked thread begins. The kernel tells its SP and PC and no other register (/proc/self/task/T/syscall).
 * Each file that is named after a processor finds what else a walk needs there; the walker `rules` does the rest.
 */
#ifndef ONSTACK_SAMPLER_MODULES_BLOCKED_H
#define ONSTACK_SAMPLER_MODULES_BLOCKED_H

#include "platform/defs.h"
#include "onstack/onstack.h"

/*
 * Registers for a walk from `sp` and `pc`. What could not be found is such that the walk ends with a truncation where it would
 * be needed, and not with a wrong caller. The stack may be gone or in use by now: nothing is loaded, the kernel copies. A
 * thread of ours, while rule tables are kept (as a handler is inside).
 */
ONSTACK_INTERNAL void onstack_blocked_registers(uint64_t pc, uint64_t sp, onstack_registers *registers);

#endif
