/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Words shared by every internal file. Depends on nothing.
 *
 * ONSTACK_INTERNAL marks a function or object that other files of the library use. It is hidden in the shared library
 * and becomes static in the single-file build (bindings/go), so two copies in one program cannot clash.
 * Names of static functions are unique across files for the same reason.
 */
#ifndef ONSTACK_PLATFORM_DEFS_H
#define ONSTACK_PLATFORM_DEFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef ONSTACK_SINGLE_FILE
#define ONSTACK_INTERNAL static
#define ONSTACK_INTERNAL_DATA static   /* declares an object */
#define ONSTACK_INTERNAL_DEFINE static /* defines it */
#else
#define ONSTACK_INTERNAL __attribute__((visibility("hidden")))
#define ONSTACK_INTERNAL_DATA extern __attribute__((visibility("hidden")))
#define ONSTACK_INTERNAL_DEFINE __attribute__((visibility("hidden")))
#endif

/*
 * ONSTACK_HANDLER marks every function that can run inside the signal handler.
 * - no stack protector and no sanitizer: on a thread made by raw clone the thread pointer may be 0, and both read
 *   through it (a handler built with -fstack-protector crashed there);
 * - the attributes stand here rather than in build flags alone because cargo and cgo bring flags of their own.
 */
#if defined(__clang__)
#define ONSTACK_HANDLER __attribute__((no_stack_protector, no_sanitize("address", "thread", "undefined", "memory")))
#elif defined(__GNUC__) && __GNUC__ >= 11
#define ONSTACK_HANDLER __attribute__((no_stack_protector, no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#else
#define ONSTACK_HANDLER __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

/* For a handler function whose frame must not become part of its caller's: the caller checks the room first. */
#define ONSTACK_HANDLER_APART ONSTACK_HANDLER __attribute__((noinline))

#define ONSTACK_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define ONSTACK_CACHE_LINE 64

/* Which numbers can be user addresses at all, checked before any arithmetic on them. */

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
