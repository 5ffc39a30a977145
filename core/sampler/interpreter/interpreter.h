/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a session knows of the interpreters in the process: the frames of an interpreted language are copied behind the walk
 * of the native ones (record_handler.c), and put into the place of the loop's frames when the sample is delivered
 * (onstack_interleave): only then is it known which native frames there are.
 */
#ifndef ONSTACK_SAMPLER_INTERPRETER_INTERPRETER_H
#define ONSTACK_SAMPLER_INTERPRETER_INTERPRETER_H

#include "platform/atomics.h"
#include "platform/defs.h"
#include "sampler/unwind/module_statistics.h"

#include "onstack/interpreter.h"
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

/*
 * The fingerprint of a function is copied with its frames, in the upper bits of their flags: memory is used again, and
 * milliseconds later another function may lie there. Of functions that have been named, nothing is copied: they are compared
 * with what they were then (sampler/interpreter/known.h), so that all this costs is the first sample of each.
 */

/* The words that tell a function from another at its address, by more than addresses: allocators give the memory of what has
   just been freed. */
#define ONSTACK_IDENTITY 5

#define ONSTACK_FINGERPRINT_SHIFT 8      /* behind ONSTACK_INTERPRETED_* */
#define ONSTACK_FINGERPRINT_NAMED 0u     /* it had been named when the frame was copied */
#define ONSTACK_FINGERPRINT_UNPROVEN 1u  /* it could not be read, or there were too many new ones */
#define ONSTACK_FINGERPRINT_FIRST 2u     /* others are hashes of its identity */
#define ONSTACK_FINGERPRINTS 64u         /* that a sample takes at most; each costs some two copies by the kernel */
#define ONSTACK_FINGERPRINT_PLACES 4096u /* a power of two */

/* Addresses of functions that have been named, each in its place; 0: none (publish / observe). */
ONSTACK_INTERNAL_DATA uint64_t onstack_fingerprint_named[ONSTACK_FINGERPRINT_PLACES];

static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint32_t onstack_fingerprint_place(uint64_t function) {
  return (uint32_t)((function >> 4) * 0x9e3779b97f4a7c15u >> 40) & (ONSTACK_FINGERPRINT_PLACES - 1);
}

/* Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER bool onstack_fingerprint_is_named(uint64_t function) {
  return onstack_observe(&onstack_fingerprint_named[onstack_fingerprint_place(function)]) == function;
}

/* From ONSTACK_FINGERPRINT_FIRST on. Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint32_t
onstack_fingerprint_of(const uint64_t identity[ONSTACK_IDENTITY]) {
  uint64_t mixed = 0;
  for (uint32_t i = 0; i < ONSTACK_IDENTITY; i++) {
    mixed = (mixed ^ ((const volatile uint64_t *)identity)[i]) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 29;
  }
  const uint32_t fingerprint = (uint32_t)(mixed >> 40);
  return fingerprint < ONSTACK_FINGERPRINT_FIRST ? fingerprint + ONSTACK_FINGERPRINT_FIRST : fingerprint;
}

/*
 * Frames of an interpreter lie in pieces of memory that grow upwards, callers below the called. One copy by the kernel takes
 * many neighbours at once: it costs hardly more than a copy of one.
 */

#define ONSTACK_WINDOW_FRAME 112u  /* bytes of a frame at most */
#define ONSTACK_WINDOW_BYTES 7168u /* of Python some 50 frames */

typedef struct onstack_window {
  const onstack_frame_memory *memory;
  uint64_t piece;     /* where the newest piece begins; 0: not known */
  uint64_t low, high; /* what of it is in `bytes` */
  uint8_t *frame;     /* room for a frame that lies elsewhere: ONSTACK_WINDOW_FRAME */
  uint8_t *bytes;     /* ONSTACK_WINDOW_BYTES */
} onstack_window;

/* A word in bytes that were copied; `offset` is a multiple of its size. Signal-safe. */
static inline __attribute__((always_inline, unused)) ONSTACK_HANDLER uint64_t onstack_window_word(const uint8_t *bytes,
                                                                                                  uint32_t offset) {
  return *(const volatile uint64_t *)(const void *)(bytes + offset);
}

/* Memory at an aligned, plausible address. Signal-safe. */
ONSTACK_INTERNAL bool onstack_window_read(const onstack_frame_memory *memory, uint64_t address, void *to, uint32_t bytes);

/* `size` bytes of a frame, valid until the next call; NULL: they cannot be read. Signal-safe. */
ONSTACK_INTERNAL const uint8_t *onstack_window_frame(onstack_window *window, uint64_t address, uint32_t size);

/* Puts the frames of an interpreted language into the places of the loop's frames in a native stack. */

typedef struct onstack_interleave_counters {
  uint64_t interpreted, cut, unmatched, unnamed;
} onstack_interleave_counters;

/*
 * Each native frame of the loop is a call of it, and runs the frames up to the next ENTRY; both are in order from the leaf on.
 * Where their numbers do not agree the frames are left out: they were copied in the instants of a call or a return. A stack
 * that is cut has fewer calls; the frames that lie behind its end are not shown, for what lies between is not known. One that
 * was switched to (greenlet, gevent, another interpreter of the process) lies upon native frames whose calls are not its own:
 * where an interpreter tells which call its innermost frames are in, the outer loops stay native.
 *
 * The frames are named first, in their places in *interpreted, unless they are already. `frames`: room for `capacity`; *stack
 * is made to point there if frames come into it. Consumer only.
 */
ONSTACK_INTERNAL void onstack_interleave(const onstack_interpreter *interpreter, onstack_interpreted *interpreted,
                                         onstack_walked *stack, uint64_t *frames, uint32_t capacity,
                                         onstack_interleave_counters *counters);

/* The frames of interpreted languages that another thread runs, which is blocked. */

/*
 * Copies and names them, by the first interpreter that has any, `capacity` at most; the room behind them is scratch, as for
 * onstack_interpreted_copy. `hints`: ONSTACK_INTERPRETERS words that stay with the thread, 0 at first. Named at once: the
 * function that a thread waited in may be gone when its wait becomes a sample. False: it runs none. Ordinary threads.
 */
ONSTACK_INTERNAL bool onstack_interpreted_copy_of(const onstack_interpreter *interpreters, uint32_t count, uint32_t tid,
                                                  uint32_t capacity, uint64_t *hints, onstack_interpreted *out);

#endif
