/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Copies of loaded objects' memory, which another thread may unmap at any instant. Ordinary threads only. */
#ifndef ONSTACK_CONTROL_UNWIND_MEMORY_FETCH_H
#define ONSTACK_CONTROL_UNWIND_MEMORY_FETCH_H

#include "base/defs.h"

/*
 * The bytes from `address` on, as far as they can be read; returns how many those are. The kernel copies, so nothing
 * faults. Where it refuses the call altogether (seccomp, qemu-user) they are loaded: then an unmapping in this very moment
 * can hurt.
 */
ONSTACK_INTERNAL size_t onstack_memory_fetch(uint64_t address, void *out, size_t size);

#endif
