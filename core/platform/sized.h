/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Structures of the public header that begin with their size (uint32_t), between a caller and a library of different ages.
 * What a shorter one lacks is zero. A longer one is of a newer header: in what is asked for, the rest must be zero; in what
 * is filled in, it becomes zero.
 *
 * What a structure must have at least is its size in version 0.1, never its size today: programs that were built when it was
 * shorter must go on. Each such number stands where the structure is read, as ..._SIZE_0_1. Of a structure that stays the
 * caller's (an unwinder, a provider) members that are new since then are read only where its `size` covers them.
 */
#ifndef ONSTACK_PLATFORM_SIZED_H
#define ONSTACK_PLATFORM_SIZED_H

#include "platform/defs.h"

/* No structure of the public header will ever be longer: a larger `size` is an uninitialised field, and what lies behind
   the structure must not be touched. */
#define ONSTACK_SIZED_LIMIT 4096u

/* The shortest options that ever were: up to sink_data. */
#define ONSTACK_OPTIONS_SIZE_0_1 ((size_t)64)

/* Whether a structure of the caller is at least `least_bytes` long, and zero from `known_bytes` on. ONSTACK_E_OPTIONS: not. */
ONSTACK_INTERNAL int onstack_sized_check(const void *given, size_t known_bytes, size_t least_bytes);

/* The same, and copies it into `known`. */
ONSTACK_INTERNAL int onstack_sized_copy(void *known, size_t known_bytes, size_t least_bytes, const void *given);

/* Copies `known` into a structure of the caller, whose size becomes that of what is known. Errors: ONSTACK_E_OPTIONS. */
ONSTACK_INTERNAL int onstack_sized_fill(void *given, size_t least_bytes, const void *known, size_t known_bytes);

/* Reads a switch whose default is on. Errors: ONSTACK_E_OPTIONS for a value that is none of the three. */
ONSTACK_INTERNAL int onstack_switch_read(uint8_t value, bool *on);

#endif
