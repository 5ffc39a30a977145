/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The addresses of frames of interpreted languages (platform/interpreted_names.h): no process has code there. */
#ifndef ONSTACK_PLATFORM_INTERPRETED_H
#define ONSTACK_PLATFORM_INTERPRETED_H

#include "platform/defs.h"
#include "onstack/onstack.h"

#define ONSTACK_INTERPRETED_LINE_BITS 24
#define ONSTACK_INTERPRETED_LINES (((uint64_t)1 << ONSTACK_INTERPRETED_LINE_BITS) - 1)
#define ONSTACK_INTERPRETED_ADDRESS(function, line)                                                                         \
  ((uint64_t)ONSTACK_INTERPRETED_BYTE << 56 | (uint64_t)(function) << ONSTACK_INTERPRETED_LINE_BITS |                       \
   ((uint64_t)(line) <= ONSTACK_INTERPRETED_LINES ? (uint64_t)(line) : 0))
#define ONSTACK_INTERPRETED_FUNCTION(address) ((uint32_t)((address) >> ONSTACK_INTERPRETED_LINE_BITS))
#define ONSTACK_INTERPRETED_LINE(address) ((uint32_t)((address)&ONSTACK_INTERPRETED_LINES))

static inline __attribute__((unused)) bool onstack_is_interpreted(uint64_t address) {
  return address >> 56 == ONSTACK_INTERPRETED_BYTE;
}

#endif
