/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How the frames of a session's samples led to their callers, by module. One writer at a time: the consumer. */
#ifndef ONSTACK_SAMPLER_UNWIND_MODULE_STATISTICS_H
#define ONSTACK_SAMPLER_UNWIND_MODULE_STATISTICS_H

#include "sampler/unwind/rules.h"
#include "onstack/onstack.h"

typedef struct onstack_module_statistics_row {
  uint64_t by[5]; /* ONSTACK_BY_*: frames; by nothing: stacks that end here at their root */
  uint64_t lost_by[ONSTACK_TRUNCATION_COUNT];
} onstack_module_statistics_row;

typedef struct onstack_module_statistics {
  onstack_module_statistics_row
      *rows; /* by module number; those that could not be had for want of memory are counted in row 0 */
  uint32_t count;
  onstack_module last; /* that a frame lay in */
} onstack_module_statistics;

/* A stack on its way to the sink. */
typedef struct onstack_walked {
  uint64_t *frames;
  uint8_t *unwound_by; /* ONSTACK_BY_* */
  uint32_t count;
  onstack_truncation truncation;
  bool apart; /* its root is the first function on a stack that the program made; an interpreter's frames may go on */
} onstack_walked;

/* Counts the frames of one stack. Consumer only. */
ONSTACK_INTERNAL void onstack_module_statistics_add(onstack_module_statistics *statistics, const onstack_walked *stack);

ONSTACK_INTERNAL void onstack_module_statistics_release(onstack_module_statistics *statistics);

#endif
