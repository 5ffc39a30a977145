/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a session knows of the interpreters in the process: the frames of an interpreted language are copied behind the walk
 * of the native ones (record_handler.c), and put into the place of the loop's frames when the sample is delivered
 * (sampler/interpreter/interleave.h): only then is it known which native frames there are.
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_INTERPRETER_H
#define ONSTACK_SAMPLER_INTERPRETER_INTERPRETER_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "onstack/onstack.h"

#define ONSTACK_INTERPRETERS 3u /* providers of a session: those that ship, and the user's */

typedef struct onstack_interpreter {
  const onstack_frame_provider *provider;
  uint32_t ready; /* it is there (publish / observe). Where it has gone, 0 again */
  bool refused;   /* it is there, and is not asked again; consumer only, as what follows */
  uint32_t loop_count;
  onstack_loop_code loops[ONSTACK_LOOP_CODES];
  /* As it was prepared, with these loops; asked now and then, once it is ready. NULL: always, but with its object. */
  bool (*lives)(const onstack_loop_code *loops, uint32_t count);
  bool (*tells)(void); /* it says where its calls are (onstack_frame_place). Whether they are the thread's innermost ones */
} onstack_interpreter;

/* Whether a frame of a native stack is a call of the interpreter's loop. Signal-safe. */
static inline __attribute__((unused)) ONSTACK_HANDLER bool
onstack_interpreter_is_loop(const onstack_interpreter *interpreter, const uint64_t *frames, uint32_t frame) {
  const uint64_t address = frames[frame] - (frame > 0);
  for (uint32_t i = 0; i < onstack_load_relaxed(&interpreter->loop_count); i++) {
    const onstack_loop_code *loop = &interpreter->loops[i];
    if (address >= onstack_load_relaxed(&loop->low) && address < onstack_load_relaxed(&loop->high)) return true;
  }
  return false;
}

/* What the providers that ship are called with: they tell more than the public structure has room for. */
typedef struct onstack_frame_place {
  onstack_frame_memory memory; /* the first: the rest lies behind it */
  uint64_t place;              /* out: lies in the native frame of the innermost call that the frames tell of; 0: unknown */
} onstack_frame_place;

/* The providers of a session. */
typedef struct onstack_interpreter_list {
  uint32_t count;
  const onstack_frame_provider *providers[ONSTACK_INTERPRETERS];
} onstack_interpreter_list;

/* Where the innermost call of the loop that the frames tell of is. */
typedef enum onstack_interpreted_leaf {
  ONSTACK_INTERPRETED_LEAF_UNKNOWN,
  ONSTACK_INTERPRETED_LEAF_IS,     /* it is the leaf */
  ONSTACK_INTERPRETED_LEAF_IS_NOT, /* it is not, and the leaf is another call of the loop */
  ONSTACK_INTERPRETED_LEAF_CALLED, /* it is the loop's innermost native frame, which has called others */
  ONSTACK_INTERPRETED_LEAF_GONE,   /* in none of these: a stack is being switched to (greenlet) */
} onstack_interpreted_leaf;

/* Stacks are switched in this process: more loops than calls were seen. Relaxed; once 1 it stays so. */
ONSTACK_INTERNAL_DATA uint32_t onstack_interpreted_switches;

/* In a ring entry with the flag ONSTACK_ENTRY_INTERPRETED, behind the labels. */
typedef struct onstack_interpreted {
  uint16_t count;
  uint8_t interpreter; /* whose frames they are */
  uint8_t cut;         /* there are more */
  uint8_t named;       /* the frames' functions are their addresses (platform/interpreted.h) */
  uint8_t leaf;        /* onstack_interpreted_leaf */
  uint8_t refused;     /* none, for the kernel copies no memory */
  uint8_t reserved;
  onstack_interpreted_frame frames[];
} onstack_interpreted;

#define ONSTACK_ENTRY_INTERPRETED 0x80u /* beside ONSTACK_SAMPLE_*, which no sink sees */

/* Bytes that an entry of `depth` frames needs for it while it is filled. */
#define ONSTACK_INTERPRETED_BYTES(depth)                                                                                    \
  ((uint32_t)(sizeof(onstack_interpreted) + (depth) * sizeof(onstack_interpreted_frame)) + ONSTACK_FRAME_SCRATCH)

/* A thread as it was interrupted, and its native frames. */
typedef struct onstack_interrupted {
  const onstack_registers *registers;
  const uint64_t *frames;
  uint32_t frame_count;
  bool whole; /* up to the thread's beginning */
  int32_t tid;
} onstack_interrupted;

/* Copies the frames of the calling thread, which is `interrupted`, by the first interpreter that has any,
   `capacity` at most. The room behind them is scratch: ONSTACK_FRAME_SCRATCH bytes. Signal-safe. */
ONSTACK_INTERNAL void onstack_interpreted_copy(const onstack_interpreter *interpreters, uint32_t count,
                                               const onstack_interrupted *interrupted, uint32_t capacity,
                                               onstack_interpreted *out);

/* Bytes of what was copied. Signal-safe. */
static inline __attribute__((always_inline, unused)) uint32_t onstack_interpreted_used(const onstack_interpreted *copied) {
  return (uint32_t)(sizeof(*copied) + copied->count * sizeof(copied->frames[0]));
}

#endif
