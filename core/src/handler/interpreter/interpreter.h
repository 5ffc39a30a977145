/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a session knows of the interpreters in the process: the frames of an interpreted language are copied behind the walk
 * of the native ones (handler/tick/record.c), and put into the place of the loop's frames when the sample is delivered
 * (drain/interpreter/interleave.h): only then is it known which native frames there are.
 */
#ifndef ONSTACK_HANDLER_INTERPRETER_INTERPRETER_H
#define ONSTACK_HANDLER_INTERPRETER_INTERPRETER_H

#include "base/defs.h"
#include "onstack/onstack.h"

#define ONSTACK_INTERPRETERS 3u /* providers of a session: those that ship, and the user's */

typedef struct onstack_interpreter {
  const onstack_frame_provider *provider;
  uint32_t ready; /* it is there (publish / observe) */
  bool refused;   /* it is there, and is not asked again; consumer only, as what follows */
  uint32_t loop_count;
  onstack_loop_code loops[ONSTACK_LOOP_CODES];
} onstack_interpreter;

/* The providers of a session. */
typedef struct onstack_interpreter_list {
  uint32_t count;
  const onstack_frame_provider *providers[ONSTACK_INTERPRETERS];
} onstack_interpreter_list;

/* In a ring entry with the flag ONSTACK_ENTRY_INTERPRETED, behind the labels. */
typedef struct onstack_interpreted {
  uint16_t count;
  uint8_t interpreter; /* whose frames they are */
  uint8_t cut;         /* there are more */
  uint8_t named;       /* the frames' functions are their addresses (base/interpreted_names.h) */
  uint8_t reserved[3];
  onstack_interpreted_frame frames[];
} onstack_interpreted;

#define ONSTACK_ENTRY_INTERPRETED 0x80u /* beside ONSTACK_SAMPLE_*, which no sink sees */

/* Bytes that an entry of `depth` frames needs for it while it is filled. */
#define ONSTACK_INTERPRETED_BYTES(depth)                                                                                    \
  ((uint32_t)(sizeof(onstack_interpreted) + (depth) * sizeof(onstack_interpreted_frame)) + ONSTACK_FRAME_SCRATCH)

/* Copies the frames of the calling thread, by the first interpreter that has any, `capacity` at most. The room behind them
   is scratch: ONSTACK_FRAME_SCRATCH bytes. Signal-safe. */
ONSTACK_INTERNAL void onstack_interpreted_copy(const onstack_interpreter *interpreters, uint32_t count, int32_t tid,
                                               uint32_t capacity, onstack_interpreted *out);

/* Bytes of what was copied. Signal-safe. */
static inline __attribute__((always_inline, unused)) uint32_t onstack_interpreted_used(const onstack_interpreted *copied) {
  return (uint32_t)(sizeof(*copied) + copied->count * sizeof(copied->frames[0]));
}

#endif
