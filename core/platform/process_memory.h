/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef ONSTACK_PLATFORM_PROCESS_MEMORY_H
#define ONSTACK_PLATFORM_PROCESS_MEMORY_H

#include "platform/defs.h"

/* Copies memory of this process that others may change or unmap meanwhile; the kernel copies, so nothing faults. Returns the
   bytes from the address on that were there; 0, too, where no memory can be read so (other systems than Linux). Ordinary
   threads. */
ONSTACK_INTERNAL size_t onstack_process_memory_copy(uint64_t address, void *out, size_t size);

/* The same; whether all of it was there. */
ONSTACK_INTERNAL bool onstack_process_memory_read(uint64_t address, void *out, size_t size);

#endif
