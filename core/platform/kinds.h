/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kinds of samples (ONSTACK_KIND_* in the public header), as an index, and their units. */
#ifndef ONSTACK_PLATFORM_KINDS_H
#define ONSTACK_PLATFORM_KINDS_H

#include "platform/defs.h"
#include "onstack/onstack.h"

#define ONSTACK_KINDS 6u /* the known ones, and place 0, which is none */

/* ONSTACK_UNIT_*; 0: no such kind. */
static inline __attribute__((unused)) onstack_unit onstack_kind_unit(onstack_kind kind) {
  static const uint8_t units[ONSTACK_KINDS] = {
      [ONSTACK_KIND_CPU] = ONSTACK_UNIT_NANOSECONDS,  [ONSTACK_KIND_WALL] = ONSTACK_UNIT_NANOSECONDS,
      [ONSTACK_KIND_ALLOCATION] = ONSTACK_UNIT_BYTES, [ONSTACK_KIND_WAIT] = ONSTACK_UNIT_NANOSECONDS,
      [ONSTACK_KIND_DUMP] = ONSTACK_UNIT_COUNT,
  };
  return kind < ONSTACK_KINDS ? units[kind] : 0;
}

/* As reports and statistics write it. */
static inline __attribute__((unused)) const char *onstack_unit_name(onstack_unit unit) {
  return unit == ONSTACK_UNIT_NANOSECONDS ? "nanoseconds" : unit == ONSTACK_UNIT_BYTES ? "bytes" : "count";
}

#endif
