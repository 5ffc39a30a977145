/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Structures of the caller that begin with their size. */
#ifndef ONSTACK_PROFILE_SIZED_H
#define ONSTACK_PROFILE_SIZED_H

#include "base/defs.h"

/*
 * Copies a sized structure of the caller into `known` (`known_bytes` long): what a shorter one lacks becomes zero; a
 * longer one is accepted when the rest is zero. Errors: ONSTACK_E_OPTIONS.
 */
ONSTACK_INTERNAL int onstack_profile_sized_copy(void *known, size_t known_bytes, const void *given);

/* Reads a switch whose default is on. Errors: ONSTACK_E_OPTIONS for a value that is none of the three. */
ONSTACK_INTERNAL int onstack_profile_switch_read(uint8_t value, bool *on);

#endif
