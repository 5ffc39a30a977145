/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which numbers can be user addresses at all, checked before any arithmetic on them. */
#ifndef ONSTACK_PLATFORM_ADDRESS_H
#define ONSTACK_PLATFORM_ADDRESS_H

#include "platform/defs.h"

/*
 * Below 64 KiB nothing is mapped by default (vm.mmap_min_addr), and the probe's NULL page would look readable
 * (rt_sigprocmask with a NULL set succeeds). Above the user range an addition could wrap: a frame pointer near 2^64
 * passed a naive range check and crashed a prototype. 2^56 covers five-level page tables and 52-bit aarch64.
 */
#define ONSTACK_ADDRESS_LOW ((uint64_t)0x10000)
#define ONSTACK_ADDRESS_HIGH ((uint64_t)1 << 56)

static inline __attribute__((always_inline, unused)) bool onstack_address_plausible(uint64_t address) {
  return address - ONSTACK_ADDRESS_LOW < ONSTACK_ADDRESS_HIGH - ONSTACK_ADDRESS_LOW;
}

/* The smallest page of both architectures; probing in these steps is right for larger pages too. */
#define ONSTACK_PAGE ((uint64_t)4096)

#endif
