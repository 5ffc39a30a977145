/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_BASE_PROCESS_MEMORY_H
#define ONSTACK_BASE_PROCESS_MEMORY_H

#include "base/defs.h"

/* Copies memory of this process that others may change or unmap meanwhile; the kernel copies, so nothing faults. False: not
   all of it is there, or it cannot be read this way (seccomp, emulators, other systems than Linux). Ordinary threads. */
ONSTACK_INTERNAL bool onstack_process_memory_read(uint64_t address, void *bytes, size_t length);

#endif
